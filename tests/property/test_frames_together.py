"""Frames that come in one fetch are read as each is alone, whatever types their columns have."""

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.decode import Decoded, decode
from pipeline.why_refused import Refused
from schemas.frames import FRAME_CONTENT_TYPE, frame_bytes
from schemas.records import Headers, Records

FRAME_HEADERS: Headers = (("content-type", FRAME_CONTENT_TYPE.encode()),)
LOG_MS = 1_790_000_000_000

thorough = settings(max_examples=200, deadline=None, print_blob=True)

texts = st.sampled_from(["a:b", "a:c", "é:日", "", "no colon", "*", "a:" + "x" * 300, None])
numbers = st.integers(-2, 100) | st.none()
text_types = st.sampled_from(
    [
        pa.string(),
        pa.large_string(),
        pa.string_view(),
        pa.dictionary(pa.int8(), pa.string()),
        pa.dictionary(pa.int32(), pa.string()),
        pa.dictionary(pa.int32(), pa.large_string()),
    ]
)
number_types = st.sampled_from([pa.int8(), pa.int64(), pa.timestamp("ms", "UTC"), pa.float64()])


@st.composite
def frames(draw: st.DrawFn) -> bytes:
    """Bytes that most often are a frame."""
    rows = draw(st.integers(0, 5))
    names = draw(st.sets(st.sampled_from(["member", "region", "id", "delta", "at", "colour"])))
    columns = {}
    for name in sorted({"counter", *names}):
        is_number = name in {"delta", "at"}
        values = draw(st.lists(numbers if is_number else texts, min_size=rows, max_size=rows))
        kind = draw(number_types if is_number else text_types)
        columns[name] = pa.array(values, kind)
    if draw(st.integers(0, 9)) == 0:
        del columns["counter"]
    written = frame_bytes(pa.record_batch(columns))
    return written[:-1] if draw(st.integers(0, 19)) == 0 else written


def read(values: list[bytes], first: int = 0) -> Decoded:
    count = len(values)
    offsets = np.arange(first, first + count, dtype=np.int64)
    headers = [FRAME_HEADERS] * count
    return decode(Records(0, offsets, offsets + LOG_MS, [None] * count, list(values), headers))


@thorough
@given(st.lists(frames(), max_size=6))
def test_frames_of_one_fetch_read_as_each_alone(values: list[bytes]) -> None:
    rows: list[dict[str, object]] = []
    refused: list[Refused] = []
    for offset, value in enumerate(values):
        alone = read([value], offset)
        rows += alone.columns.to_pylist()
        refused += alone.refused
    together = read(values)
    assert together.columns.to_pylist() == rows
    assert together.refused == refused


def test_a_dictionary_of_too_few_numbers_for_all_frames_is_no_reason_to_refuse_them() -> None:
    """Each has as many texts as eight bits can tell apart; joined, they would not fit."""
    kind = pa.dictionary(pa.int8(), pa.string())
    values = [
        frame_bytes(pa.record_batch({"counter": pa.array(names, pa.string()).cast(kind)}))
        for names in ([f"a:{n}" for n in range(128)], [f"b:{n}" for n in range(128)])
    ]
    together = read(values)
    assert together.refused == []
    assert together.columns["counter"].to_pylist() == [f"{f}:{n}" for f in "ab" for n in range(128)]
