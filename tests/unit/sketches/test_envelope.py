"""Bytes that are not a sketch, or not this one, or damaged, are refused with the reason."""

import struct
import zlib
from collections.abc import Callable

import pytest

from pipeline.errors import BadInputError
from sketches.distinct import Distinct
from sketches.envelope import pack, seal, unpack
from sketches.frequency import Frequency
from sketches.heavy import Heavy
from sketches.morris import Morris

KEYS = ["likes:a", "likes:b", "likes:ü"] * 7


def distinct() -> bytes:
    made = Distinct(8)
    made.add_many(KEYS)
    return made.to_bytes()


def frequency() -> bytes:
    made = Frequency(3, 16)
    made.add_many(KEYS, [1, -2, 3] * 7)
    return made.to_bytes()


def heavy() -> bytes:
    made = Heavy(2)
    made.add_many(KEYS * 500, [1, -2, 3] * 3500)
    return made.to_bytes()


def morris() -> bytes:
    made = Morris(0.25, 5)
    made.add_many([0, 1, 4] * 7, partition=0, offsets=range(21))
    return made.to_bytes()


ALL: list[tuple[Callable[[], bytes], Callable[[bytes], object]]] = [
    (distinct, Distinct.from_bytes),
    (frequency, Frequency.from_bytes),
    (heavy, Heavy.from_bytes),
    (morris, Morris.from_bytes),
]
each = pytest.mark.parametrize(("made", "read"), ALL)


@each
def test_every_flipped_bit_is_noticed(
    made: Callable[[], bytes], read: Callable[[bytes], object]
) -> None:
    sealed = made()
    for place in range(min(len(sealed), 200)):
        for bit in range(8):
            damaged = bytearray(sealed)
            damaged[place] ^= 1 << bit
            with pytest.raises(BadInputError):
                read(bytes(damaged))


@each
def test_every_shortened_or_lengthened_copy_is_noticed(
    made: Callable[[], bytes], read: Callable[[bytes], object]
) -> None:
    sealed = made()
    for end in range(0, len(sealed), max(1, len(sealed) // 50)):
        with pytest.raises(BadInputError):
            read(sealed[:end])
    with pytest.raises(BadInputError):
        read(sealed + b"\0")


@each
def test_another_version_is_refused_by_its_number(
    made: Callable[[], bytes], read: Callable[[bytes], object]
) -> None:
    sealed = bytearray(made())
    sealed[3] = 9
    with pytest.raises(BadInputError, match="version 9, this program reads version 1"):
        read(bytes(sealed))


@each
def test_the_bytes_of_another_sketch_are_refused(
    made: Callable[[], bytes], read: Callable[[bytes], object]
) -> None:
    for other, _ in ALL:
        if other is not made:
            with pytest.raises(BadInputError, match="not a"):
                read(other())


@pytest.mark.parametrize(
    ("sealed", "read", "reason"),
    [
        (seal(b"D", 1, b"\x0c\x02"), Distinct.from_bytes, "not as it says"),
        (seal(b"D", 1, b"\x0c\x01" + bytes(4095)), Distinct.from_bytes, "not as it says"),
        (seal(b"D", 1, b"\x0c\x01" + bytes(4096)), Distinct.from_bytes, "not as it says"),
        (seal(b"D", 1, b"\x0c\x00" + struct.pack("<2I", 257, 257)), Distinct.from_bytes, "not as"),
        (seal(b"D", 1, b"\x0c\x00" + struct.pack("<I", 256)), Distinct.from_bytes, "ranks"),
        (seal(b"D", 1, b"\x11\x00"), Distinct.from_bytes, "precision 17"),
        (seal(b"D", 1, b""), Distinct.from_bytes, "ends early"),
        (seal(b"F", 1, struct.pack("<BIqQQB", 0, 4, -1, 0, 0, 0)), Frequency.from_bytes, "0 rows"),
        (
            seal(b"F", 1, struct.pack("<BIqQQB", 1, 4, -1, 1, 0, 0) + pack(bytes(32))),
            Frequency.from_bytes,
            "add up",
        ),
        (
            seal(b"F", 1, struct.pack("<BIqQQB", 1, 4, -9, 0, 0, 0) + pack(bytes(32))),
            Frequency.from_bytes,
            "through -9",
        ),
        (
            seal(b"F", 1, struct.pack("<BIqQQB", 1, 4, -1, 0, 0, 0) + pack(bytes(10**7))),
            Frequency.from_bytes,
            "another size",
        ),
        (
            seal(b"H", 1, struct.pack("<IqQQIII", 1, -1, 0, 0, 0, 4_000_000_000, 0)),
            Heavy.from_bytes,
            "ends early",
        ),
        (
            seal(b"H", 1, struct.pack("<IqQQIII", 1, -1, 5, 9, 0, 0, 0) + bytes(28)),
            Heavy.from_bytes,
            "add up",
        ),
        (seal(b"M", 1, struct.pack("<dQq", 9.0, 0, -1)), Morris.from_bytes, "error of 9.0"),
        (seal(b"M", 1, struct.pack("<dQq", 0.25, 1 << 60, -1)), Morris.from_bytes, "no sense"),
        (seal(b"M", 1, struct.pack("<dQq", 0.25, 1 << 30, -1)), Morris.from_bytes, "damaged"),
    ],
)
def test_a_right_checksum_is_not_enough(
    sealed: bytes, read: Callable[[bytes], object], reason: str
) -> None:
    with pytest.raises(BadInputError, match=reason):
        read(sealed)


def test_a_small_message_cannot_become_a_large_one() -> None:
    bomb = zlib.compress(bytes(10**7))
    with pytest.raises(BadInputError, match="another size"):
        unpack(bomb, 100, "test")
    assert unpack(bomb, 10**7, "test") == bytes(10**7)
