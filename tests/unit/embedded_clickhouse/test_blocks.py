"""ClickHouse's compressed blocks, and the checksum before them."""

import struct
import tracemalloc

import cramjam
import pytest

from pipeline.embedded.clickhouse.blocks import (
    BLOCK_BYTES_MAX,
    BlockEncoder,
    checksum,
    unblocked,
)
from pipeline.embedded.clickhouse.errors import ClickHouseError

# Blocks as the engine itself wrote them into the files of a table, so not by the code under test.
ENGINE_BLOCKS = """
54bff5f6375ab410b34a0f919bf89753820e0000000400000040ad85fa6a

18e3f64dd7ae0190c8fbe1917976b6fe821200000008000000803279060000000000

0c4cb5fdf0999cfc4236c0e367e21467823f0000002823000022010001000f0800ffffffffffffffffffffffffffffff
ffffffffffffffffffffffffffffffff441f610100ffffffd2506161616161

9ff309017ce407c8354db6d84eb93ed982c000000050a8000022070001000f0800ffffffffffffffffffffffffffffff
ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff
ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff
ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff
ffffffffffffffffffd8500000000000

7228e68bc7e99e262cf4c922e0e00c0090280100004809000028b52ffd604808ad0800140e000020002033008066de99
3ecd9d0001fc336167be9a1cce7b0102da343968959bface590203b8351669739cd1cf2f03048f36ed694a9da8d00704
056637c56a229e81d1e004064138a16bfd9e5cd2ba05071939776cd59f33d3910608f139fd83d7ceb11909896464af3f
fa16450af08fccdaa4250b807091adf1e051140cad470e7b6daecee12d150d8948e97b48afaae209160e6549c57c24b0
84e3e3160f3f4aa17dcabea109107b54589f2fea0a3511e47fbbca951512716049ab23f6fe4013d58bb1d68b2114626c
3cb7190215f04cca97a4e27c2d16577832c30a1550a867a82002f901e0e711240882106e10e19c1fc162f5bd89e045b2
ad7f7db5ef76d8d2d9dfee918e478f3ce67558cb05145e09
"""


def sealed(method: int, packed: bytes, data_bytes: int) -> bytes:
    body = struct.pack("<BII", method, len(packed) + 9, data_bytes) + packed
    return checksum(body) + body


@pytest.mark.parametrize("block", ENGINE_BLOCKS.split("\n\n"))
def test_the_checksum_is_the_engines(block: str) -> None:
    raw = bytes.fromhex(block)
    assert checksum(raw[16:]) == raw[:16]


@pytest.mark.parametrize("size", [0, 1, 9, 100, 70_000, BLOCK_BYTES_MAX + 5])
@pytest.mark.parametrize("piece", [7, 1 << 20])
def test_what_goes_in_comes_out_in_pieces_of_any_size(size: int, piece: int) -> None:
    if size > 100_000 and piece == 7:
        piece = 7_000
    data = bytes(range(256)) * (size // 256) + bytes(range(size % 256))
    packed = BlockEncoder().compress(data) + BlockEncoder().finish()
    pieces = [packed[at : at + piece] for at in range(0, len(packed), piece)]
    assert b"".join(unblocked(pieces)) == data


def test_zstd_and_stored_blocks_are_read() -> None:
    data = b"hello" * 100
    zstd = sealed(0x90, bytes(cramjam.zstd.compress(data)), len(data))
    assert b"".join(unblocked([zstd + sealed(0x02, data, len(data))])) == data * 2


@pytest.mark.parametrize(
    ("block", "code"),
    [
        (b"\x00" * 16 + sealed(0x82, b"x", 1)[16:], 40),
        (sealed(0x77, b"x", 1), 89),
        (sealed(0x82, b"\xff\xff\xff", 100), 271),
        (sealed(0x02, b"x", 1)[:-1], 33),
        (b"\x00" * 16 + struct.pack("<BII", 0x82, 1 << 30, 1), 271),
    ],
)
def test_a_damaged_block_is_refused(block: bytes, code: int) -> None:
    with pytest.raises(ClickHouseError) as caught:
        list(unblocked([block]))
    assert caught.value.code == code


def test_a_zstd_block_that_holds_more_than_it_says_is_refused_before_it_is_unpacked() -> None:
    packed = bytes(cramjam.zstd.compress(bytes(300 << 20)))
    body = struct.pack("<BII", 0x90, len(packed) + 9, 100) + packed
    tracemalloc.start()
    with pytest.raises(ClickHouseError, match="Cannot decompress"):
        list(unblocked([checksum(body) + body]))
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < 10 << 20
