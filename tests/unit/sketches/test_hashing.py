"""The hash of the sketches, which may never change."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from pipeline.errors import BadInputError
from sketches.hashing import hashes, mix

# Should one of these ever change, every stored register and counter would be worthless.
PINNED = {
    "": 11160318154034397263,
    "a": 2603192927274642682,
    "é\0x": 5009072099367847524,
    "user-42": 8277158001512719047,
    "hashtag:#cats": 5965506309465167025,
    "🐈" * 64: 10758628993766321636,
}


def test_the_hashes_are_those_of_all_times() -> None:
    assert hashes(list(PINNED)).tolist() == list(PINNED.values())


def test_mixed_numbers_are_those_of_all_times() -> None:
    # The first three of SplitMix64 from zero on, as everybody computes them.
    steps = np.arange(3, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    assert [hex(value) for value in mix(steps).tolist()] == [
        "0xe220a8397b1dcdaf",
        "0x6e789e6aa1b965f4",
        "0x6c45d188009454f",
    ]


@pytest.mark.parametrize(
    "column",
    [
        tuple(PINNED),
        pa.array(list(PINNED)),
        pa.array(list(PINNED), pa.large_string()),
        pa.chunked_array([list(PINNED)[:2], list(PINNED)[2:]]),
        pa.array(list(PINNED)).dictionary_encode(),
        pa.array(["?", *PINNED]).slice(1),
    ],
)
def test_every_kind_of_column_has_the_same_hashes(column: Any) -> None:
    assert hashes(column).tolist() == list(PINNED.values())


@pytest.mark.parametrize(
    "column",
    [
        ["fine", "half a character: \ud800"],
        ("fine", "half a character: \ud800"),
        ["fine", None],
        ["fine", 7],
        pa.array(["fine", None]),
        pa.array([1, 2]),
        pa.array([b"\xff"]).view(pa.string()),
        "one text",
    ],
)
def test_what_is_no_column_of_texts_is_refused(column: Any) -> None:
    with pytest.raises(BadInputError, match="text"):
        hashes(column)
