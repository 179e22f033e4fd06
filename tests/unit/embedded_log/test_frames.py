import random
import struct

import pytest

from pipeline.embedded.log.protocol.frames import FRAME_BYTES_MAX, FrameReader
from pipeline.errors import BadInputError


def feed(reader: FrameReader, data: bytes, rng: random.Random) -> list[bytes]:
    """What comes out when the bytes arrive in pieces of any size."""
    frames: list[bytes] = []
    while data:
        buffer = reader.buffer()
        count = min(len(data), len(buffer), rng.choice([1, 3, 50, 100_000]))
        buffer[:count] = data[:count]
        data = data[count:]
        frames += [bytes(frame) for frame in reader.received(count)]
    return frames


@pytest.mark.parametrize("seed", range(8))
def test_frames_come_out_as_they_went_in_whatever_the_pieces(seed: int) -> None:
    print(f"seed {seed}")
    rng = random.Random(seed)
    sent = [rng.randbytes(rng.choice([8, 9, 60, 500, 3000])) for _ in range(40)]
    stream = b"".join(struct.pack(">i", len(frame)) + frame for frame in sent)
    reader = FrameReader(memoryview(bytearray(rng.choice([4, 64, 1000]))))
    assert feed(reader, stream, rng) == sent
    assert reader.held_bytes == 0


def test_two_connections_share_a_scratch_buffer() -> None:
    rng = random.Random(0)
    scratch = memoryview(bytearray(1000))
    one, two = FrameReader(scratch), FrameReader(scratch)
    assert feed(one, b"\x00\x00\x00\x0aabc", rng) == []
    assert feed(two, b"\x00\x00\x00\x08ABCDEFGH\x00\x00", rng) == [b"ABCDEFGH"]
    assert feed(one, b"defghij", rng) == [b"abcdefghij"]
    assert feed(two, b"\x00\x09123456789", rng) == [b"123456789"]


@pytest.mark.parametrize("size", [-1, 0, 7, FRAME_BYTES_MAX + 1, 2**31 - 1])
def test_a_size_no_frame_can_have_is_refused(size: int) -> None:
    with pytest.raises(BadInputError):
        feed(FrameReader(memoryview(bytearray(100))), struct.pack(">i", size), random.Random(0))


def test_a_promise_of_much_takes_no_memory() -> None:
    reader = FrameReader(memoryview(bytearray(100)))
    feed(reader, struct.pack(">i", FRAME_BYTES_MAX) + b"abc", random.Random(0))
    assert reader.held_bytes == 3
    assert len(reader.buffer()) <= 1024 * 1024
