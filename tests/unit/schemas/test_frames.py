import struct

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import ipc

from pipeline.errors import BadInputError
from schemas.checks import bad_rows
from schemas.frame_columns import as_text, repeated_text_bytes
from schemas.frame_limits import MAX_FRAME_BYTES, MAX_FRAME_MESSAGES, MAX_FRAME_ROWS, MAX_TEXT_BYTES
from schemas.frame_weights import Weight, weights_of
from schemas.frames import (
    FRAME_SCHEMA,
    encode_frame,
    frame_bytes,
    read_frame,
    read_written,
    typed_frames,
)


def as_stream(table: pa.Table, **options: object) -> bytes:
    sink = pa.BufferOutputStream()
    with ipc.new_stream(sink, table.schema, options=ipc.IpcWriteOptions(**options)) as writer:
        writer.write_table(table)
    data: bytes = sink.getvalue().to_pybytes()
    return data


def test_a_frame_is_read_as_it_was_written() -> None:
    columns = {
        "counter": ["a:1", "é:2"],
        "delta": [1, -5],
        "at": [1_790_000_000_000, None],
        "member": ["ada", None],
        "region": ["eu", ""],
        "id": [None, "x"],
    }
    frame = read_frame(encode_frame(columns))
    assert frame.columns.schema == FRAME_SCHEMA
    assert frame.columns.to_pydict() == columns


def test_columns_left_out_and_nulls_mean_the_default() -> None:
    frame = read_frame(encode_frame({"counter": ["a:1", "a:2"], "delta": [None, 7]}))
    assert frame.columns.to_pylist() == [
        {"counter": "a:1", "delta": 1, "at": None, "member": None, "region": "", "id": None},
        {"counter": "a:2", "delta": 7, "at": None, "member": None, "region": "", "id": None},
    ]


@pytest.mark.parametrize(
    "text",
    [
        pa.large_string(),
        pa.string_view(),
        pa.dictionary(pa.int8(), pa.string()),
        pa.dictionary(pa.uint32(), pa.large_string()),
    ],
)
def test_text_of_every_arrow_sort_is_taken(text: pa.DataType) -> None:
    written = ["a:1", "b:2", "a:1"]
    table = pa.table({"counter": pa.array(written).cast(text), "region": pa.nulls(3, pa.null())})
    assert read_frame(as_stream(table)).columns.column("counter").to_pylist() == written


@pytest.mark.parametrize("number", [pa.int8(), pa.uint16(), pa.int32(), pa.uint64()])
def test_whole_numbers_of_every_width_are_taken(number: pa.DataType) -> None:
    table = pa.table({"counter": ["a:1", "a:2"], "delta": pa.array([1, None], number)})
    assert read_frame(as_stream(table)).columns.column("delta").to_pylist() == [1, 1]


@pytest.mark.parametrize(("unit", "factor"), [("s", 0.001), ("ms", 1), ("us", 1000), ("ns", 10**6)])
def test_timestamps_with_a_zone_are_taken(unit: str, factor: float) -> None:
    ticks = int(1_790_000_000_000 * factor)
    at = pa.array([ticks, None, -1], pa.int64()).cast(pa.timestamp(unit, "Europe/Berlin"))
    frame = read_frame(as_stream(pa.table({"counter": ["a:1"] * 3, "at": at})))
    assert frame.columns.column("at").to_pylist() == [1_790_000_000_000, None, -1]


def test_rfc3339_text_in_a_frame_is_taken() -> None:
    table = pa.table({"counter": ["a:1", "a:2"], "at": ["1970-01-01T00:00:01Z", "soon"]})
    assert read_frame(as_stream(table)).columns.column("at").to_pylist() == [1000, -1]


def test_a_row_is_told_as_it_was_written_with_overlong_text_cut() -> None:
    table = pa.table({"counter": ["a" * 5000], "delta": pa.array([2**64 - 1], pa.uint64())})
    assert read_frame(as_stream(table)).document(0) == {"counter": "a" * 1024, "delta": 2**64 - 1}


def test_unknown_columns_are_ignored() -> None:
    table = pa.table({"colour": [[1]], "counter": ["a:1"]})
    assert read_frame(as_stream(table)).columns.num_rows == 1


UNREADABLE = {
    "not an Arrow IPC stream": b"junk",
    "counter: the column is missing": as_stream(pa.table({"delta": [1]})),
    "counter: the column occurs twice": as_stream(
        pa.Table.from_arrays([pa.array(["a:1"])] * 2, ["counter", "counter"])
    ),
    "counter: the column is binary; give text": as_stream(pa.table({"counter": [b"a:1"]})),
    "delta: the column is double; give whole numbers": as_stream(
        pa.table({"counter": ["a:1"], "delta": [1.0]})
    ),
    "at: the column's timestamps have no time zone; give them UTC": as_stream(
        pa.table({"counter": ["a:1"], "at": pa.array([1], pa.timestamp("ms"))})
    ),
    "its body is compressed; let Kafka compress instead": as_stream(
        pa.table({"counter": ["a:1"] * 100}), compression="zstd"
    ),
    f"more than {MAX_FRAME_ROWS} rows": as_stream(
        pa.table({"counter": pa.repeat("a:1", MAX_FRAME_ROWS + 1).dictionary_encode()})
    ),
    f"more than {MAX_FRAME_MESSAGES} batches": as_stream(
        pa.concat_tables([pa.table({"counter": ["a:1"]})] * MAX_FRAME_MESSAGES)
    ),
}


@pytest.mark.parametrize("reason", UNREADABLE)
def test_a_frame_that_cannot_be_read_is_refused_with_a_reason(reason: str) -> None:
    with pytest.raises(BadInputError) as refused:
        read_frame(UNREADABLE[reason])
    assert str(refused.value).removeprefix("frame: ") == reason


def test_a_frame_that_is_cut_anywhere_is_refused() -> None:
    batches = pa.table({"counter": ["a:1"]}), pa.table({"counter": ["a:2"]})
    frame = as_stream(pa.concat_tables(batches))
    assert read_frame(frame).columns.num_rows == 2
    for length in range(len(frame)):
        with pytest.raises(BadInputError):
            read_frame(frame[:length])


def test_bytes_after_the_end_of_a_frame_are_refused() -> None:
    frame = encode_frame({"counter": ["a:1"]})
    with pytest.raises(BadInputError, match=r"^frame: not whole"):
        read_frame(frame + frame)


def test_a_frame_that_is_too_large_is_refused_unread() -> None:
    with pytest.raises(BadInputError, match=f"^frame: more than {MAX_FRAME_BYTES} bytes$"):
        read_frame(bytes(MAX_FRAME_BYTES + 1))


def test_text_that_is_not_utf8_is_refused() -> None:
    broken = pa.Array.from_buffers(pa.string(), 1, pa.array([b"a:\xff"]).buffers())
    with pytest.raises(BadInputError, match="not an Arrow IPC stream"):
        read_frame(as_stream(pa.table({"counter": broken})))


def test_indices_beyond_the_dictionary_are_refused() -> None:
    broken = pa.DictionaryArray.from_arrays(pa.array([0, 9]), pa.array(["a:1"]), safe=False)
    with pytest.raises(BadInputError, match="not an Arrow IPC stream"):
        read_frame(as_stream(pa.table({"counter": broken})))


def test_a_dictionary_cannot_multiply_overlong_text() -> None:
    entries = pa.array(["a:1", "a:" + "x" * 2**20])
    indices = pa.array([0] + [1] * 10_000, pa.int32())
    table = pa.table({"counter": pa.DictionaryArray.from_arrays(indices, entries)})
    counters = read_frame(as_stream(table)).columns.column("counter")
    assert counters[0].as_py() == "a:1"
    assert counters.nbytes < 2**20


def test_a_dictionary_that_grows_beyond_the_bound_is_refused() -> None:
    rows = MAX_TEXT_BYTES // 256 + 1
    table = pa.table({"counter": pa.repeat("a:" + "x" * 254, rows).dictionary_encode()})
    with pytest.raises(BadInputError, match=f"^counter: more than {MAX_TEXT_BYTES} bytes"):
        read_frame(as_stream(table))


@pytest.mark.parametrize(
    ("columns", "reason"),
    [
        ({"delta": [1]}, "counter: missing"),
        ({"counter": ["a:1"], "colour": [1]}, "colour: unknown column"),
        ({"counter": ["a:1"], "delta": ["x"]}, "frame: "),
        ({"counter": ["a:1"], "delta": [2**70]}, "frame: "),
        ({"counter": ["a:1"], "delta": [1, 2]}, "frame: "),
    ],
)
def test_a_frame_that_cannot_be_written_is_refused(
    columns: dict[str, list[object]], reason: str
) -> None:
    with pytest.raises(BadInputError, match=reason):
        encode_frame(columns)


def damaged_zone() -> bytes:
    at = pa.array([0], pa.timestamp("ms", "UTC"))
    batch = pa.record_batch({"counter": pa.array(["a:b"]), "at": at})
    return frame_bytes(batch).replace(b"UTC", b"\xff\xfeC")


def uneven_views() -> bytes:
    """A column of views whose buffer is no multiple of a view's size; Arrow itself writes none."""
    texts = pa.array(["a:b", "likes:" + "x" * 20], pa.string_view())
    written = frame_bytes(pa.record_batch({"counter": texts}))
    of_two_views, of_more = struct.pack("<q", 32), struct.pack("<q", 37)
    assert of_two_views in written
    return written.replace(of_two_views, of_more, 1)


def test_views_with_bytes_left_over_are_read() -> None:
    written = read_written(uneven_views())
    assert isinstance(written, pa.Table)
    assert [buffer.size for buffer in written["counter"].chunk(0).buffers() if buffer] == [37, 26]
    assert weights_of([written]) == [Weight(rows=2, text_bytes=29)]
    _, columns = typed_frames([written])
    assert columns["counter"].to_pylist() == ["a:b", "likes:" + "x" * 20]


def test_texts_whose_places_have_bytes_left_over_are_read() -> None:
    texts = pa.array(["a:b", "é:c", "d:e"])
    written = frame_bytes(pa.record_batch({"counter": texts, "region": texts}))
    of_four_places, of_more = struct.pack("<q", 16), struct.pack("<q", 17)
    damaged = [
        written[:at] + of_more + written[at + 8 :]
        for at in range(0, len(written) - 8, 8)
        if written[at : at + 8] == of_four_places
    ]
    uneven = [table for table in map(read_written, damaged) if isinstance(table, pa.Table)]
    sizes = {buffer.size for table in uneven for buffer in table["region"].chunk(0).buffers()[1:]}
    assert 17 in sizes
    for table in uneven:
        _, columns = typed_frames([table])
        assert columns["region"].to_pylist() == texts.to_pylist()
        assert not bad_rows(columns).any()


def test_a_time_zone_that_is_no_text_is_refused() -> None:
    with pytest.raises(BadInputError, match="cannot be converted"):
        read_frame(damaged_zone())


def test_rows_are_quoted_as_they_were_written_whatever_the_columns_are() -> None:
    long = "x" * 5000
    texts = [long, "b", None, "d"]
    dictionary = pa.array(["a:b", long, "a:b", None]).dictionary_encode()
    times = pa.array([1, None, 3, 4]).cast(pa.timestamp("s", "UTC"))
    batch = pa.record_batch(
        [dictionary, pa.array(texts).cast(pa.string_view()), pa.array(texts), times],
        ["counter", "member", "region", "at"],
    )
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch.slice(0, 3))
        writer.write_batch(batch.slice(3))
    frame = read_frame(sink.getvalue().to_pybytes())
    short = long[:1024]
    expected: list[dict[str, object]] = [
        {"counter": "a:b", "member": short, "region": short, "at": 1000},
        {"counter": short, "member": "b", "region": "b"},
        {"counter": "a:b", "at": 3000},
        {"member": "d", "region": "d", "at": 4000},
    ]
    assert list(frame.documents([0, 1, 2, 3])) == expected
    assert [frame.document(row) for row in (3, 0)] == [expected[3], expected[0]]


def test_views_of_nothing_do_not_make_room_for_others() -> None:
    """What the view of a null says its length is means nothing."""
    long = "x" * (1 << 20)
    views = np.frombuffer(pa.array([long] * 2).cast(pa.string_view()).buffers()[1], np.int32)
    views = np.vstack([views[:4]] * 40).astype(np.int32)
    views[39] = -(2**31)
    valid = pa.array([True] * 39 + [False]).buffers()[1]
    text = pa.array([long]).buffers()[2]
    column = pa.Array.from_buffers(
        pa.string_view(), 40, [valid, pa.py_buffer(views.tobytes()), text], null_count=1
    )
    assert repeated_text_bytes("counter", pa.chunked_array([column])) == 39 << 20
    with pytest.raises(BadInputError, match="bytes in one frame"):
        as_text("counter", pa.chunked_array([column]))
