"""The fast decoders and the model accept, refuse and read the same, whatever the bytes.

Hypothesis prints the failing example and a blob that replays it.
"""

import json

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from pipeline.decode import Decoded, decode
from schemas.blobs import Blobs
from schemas.events import FIELDS
from schemas.frames import FRAME_CONTENT_TYPE, encode_frame
from schemas.records import Headers
from schemas.times import AT_MAX_MS
from tests.kit.modelled import LOG_MS, as_the_model_reads, fetched

FRAME_HEADERS: Headers = (("content-type", FRAME_CONTENT_TYPE.encode()),)

thorough = settings(
    max_examples=400,
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


def assert_both_agree(values: list[bytes]) -> Decoded:
    rows, refused = as_the_model_reads(values)
    for column in (values, Blobs.of(values)):  # objects, and places that the kernels read
        decoded = decode(fetched(column))
        assert decoded.columns.to_pylist() == rows
        assert [(one.offset, one.reason, one.value) for one in decoded.refused] == refused
    return decoded


def text_around(limit_bytes: int) -> st.SearchStrategy[str]:
    """Text whose UTF-8 is just below, at or just above a limit, of narrow or wide characters."""
    return st.builds(
        lambda start, filler, spare: (
            start + filler * ((limit_bytes + spare) // len(filler.encode()))
        ),
        st.sampled_from(["", "a:", ":", "é:"]),
        st.sampled_from(["x", "é", "€", "😀"]),
        st.integers(-6, 6),
    )


texts = st.one_of(
    st.text(max_size=12),
    st.sampled_from(["a:b", "likes:post-42", ":", "a:", ":a", "*", "", "\0", "a:\0", "hashtag:#ñ"]),
    text_around(256),
    text_around(128),
    text_around(32),
)
digits = st.integers(0, 99).map("{:02}".format)
moments = st.one_of(
    st.datetimes().map(lambda moment: moment.isoformat() + "Z"),
    st.builds(
        "{}-{}-{}{}{}:{}:{}{}{}".format,
        st.sampled_from(["1969", "1970", "2000", "2026", "2106", "2107", "0000", "9999", "٢٠٢٦"]),
        digits,
        digits,
        st.sampled_from(["T", "t", " ", "_", ""]),
        digits,
        digits,
        digits,
        st.sampled_from(["", ".", ".5", ".123", ".1239", ".999999999", ",5"]),
        st.sampled_from(["Z", "z", "", "+00:00", "-23:59", "+24:00", "+0100", "Z\n", " Z"]),
    ),
    st.sampled_from(["2026-11-16T04:06:36Z", "2000-02-29T23:59:59.999Z", "2016-12-31T23:59:60Z"]),
)
strings_as_json = st.one_of(
    st.one_of(texts, moments).map(json.dumps),
    st.one_of(texts, moments).map(lambda text: json.dumps(text, ensure_ascii=False)),
    st.sampled_from(
        [
            r'"\ud800"', r'"a:\udc00"', r'"a:\ud83d\ude00"', r'"\ud83da"', r'"a:\u0000"',
            r'"a:\u12"', r'"a:\q"', r'"\u0061\u003ab"', '"a:\tb"', '"a:\x7f"', '"a:b', r'"a:\/"',
        ]
    ),
)  # fmt: skip
whole = st.one_of(
    st.integers(-3, 3),
    st.integers(-(2**70), 2**70),
    st.sampled_from([2**40, 2**40 + 1, -(2**40), -(2**40) - 1, 2**63 - 1, 2**63, -(2**63), 2**64]),
    st.sampled_from([0, -1, AT_MAX_MS, AT_MAX_MS + 1, LOG_MS]),
)
numbers_as_json = st.one_of(
    whole.map(str),
    whole.map("{}.0".format),
    st.floats().map(repr),
    st.builds("{}e{}".format, st.integers(-99, 99), st.integers(-3, 400)),
    st.sampled_from(
        [
            "01",
            "1.",
            ".5",
            "-",
            "+1",
            "-0",
            "-0.0",
            "1E3",
            "1e+3",
            "NaN",
            "-Infinity",
            "0x10",
            "1_0",
        ]
    ),
    st.sampled_from(["0.99999999999999999999", "1.00000000000000000001", "1" * 4300, "1" * 4301]),
)
nested_as_json = st.one_of(
    st.builds(lambda depth: "[" * depth + "]" * depth, st.integers(1, 210)),
    st.builds(lambda depth: '{"a":' * depth + "1" + "}" * depth, st.integers(190, 210)),
    st.recursive(st.none() | st.booleans() | st.text(max_size=3), st.lists, max_leaves=5).map(
        json.dumps
    ),
    st.sampled_from(["[1,]", "{", "[", "]", "{}", "[}", '{"a"}', "tru", "nul"]),
)
any_json = st.one_of(
    strings_as_json, numbers_as_json, nested_as_json, st.sampled_from(["true", "false", "null"])
)
keys_as_json = st.one_of(
    st.sampled_from(FIELDS).map(json.dumps),
    st.sampled_from(
        ['"x"', '"Counter"', r'"\u0063ounter"', '""', "counter", r'"\ud800"', '"at\\u0000"']
    ),
)
spaces = st.sampled_from(["", "", "", " ", "\n", "\t\r\n", "\x0b", "\ufeff", "\xa0"])


def object_text(
    pairs: list[tuple[str, str]], space: str, before: str, after: str, with_counter: bool
) -> bytes:
    if with_counter:
        pairs = [('"counter"', '"likes:post-42"'), *pairs]
    inner = ",".join(f"{space}{key}{space}:{space}{value}{space}" for key, value in pairs)
    return f"{before}{{{inner}}}{after}".encode(errors="surrogatepass")


objects = st.builds(
    object_text,
    st.lists(st.tuples(keys_as_json, any_json), max_size=6),
    spaces,
    st.sampled_from(["", "", "", " ", "\ufeff", "[", "\0"]),
    st.sampled_from(["", "", "", "\n", ",", "{}", "\0", "]"]),
    st.booleans(),
)
right = st.fixed_dictionaries(
    {"counter": st.sampled_from(["likes:post-42", "é:", "a:b:c"])},
    optional={
        "delta": st.sampled_from([1, -1, 2**40]),
        "at": st.sampled_from([None, 0, LOG_MS, "2026-11-16T04:06:36Z"]),
        "member": st.sampled_from([None, "ada", "é" * 128]),
        "region": st.sampled_from([None, "", "eu"]),
        "id": st.sampled_from([None, "1"]),
        "extra": st.one_of(st.none(), texts, st.lists(texts, max_size=3)),
    },
)
perhaps_a_flaw = st.one_of(
    st.tuples(st.just("delta"), st.one_of(st.none(), whole)),
    st.tuples(st.just("at"), st.one_of(st.none(), whole, moments)),
    st.tuples(st.sampled_from(["counter", "member", "region", "id"]), st.one_of(st.none(), texts)),
    st.tuples(st.just("region"), st.sampled_from(["*", "**", "*é", "\0"])),
)
mostly_right = st.builds(
    lambda event, flaws: {**event, **dict(flaws)}, right, st.lists(perhaps_a_flaw, max_size=2)
).map(lambda event: json.dumps(event, ensure_ascii=False).encode())


@st.composite
def mutated(draw: st.DrawFn) -> bytes:
    """A JSON text with some of its bytes replaced, dropped or repeated, so seldom JSON or UTF-8."""
    value = bytearray(draw(st.one_of(objects, mostly_right)))
    for _ in range(draw(st.integers(1, 3))):
        place = draw(st.integers(0, max(len(value) - 1, 0)))
        end = place + draw(st.integers(0, 3))
        value[place:end] = draw(
            st.one_of(st.binary(max_size=3), st.just(bytes(value[place:end]) * 2))
        )
    return bytes(value)


any_value = st.one_of(
    objects, mostly_right, mutated(), st.binary(max_size=20), any_json.map(str.encode)
)


@thorough
@given(st.lists(any_value, min_size=1, max_size=8))
@example([b'{"counter":"a:b","x":"\xff"}', b'{"counter":"a:b"}'])
@example([b'{"counter":"a:b","\xed\xa0\x80":1}'])
@example([b'{"counter":"a:b","x":' + b"[" * 300 + b"]" * 300 + b"}"])
@example([b'{"counter":"a:b","x":' + b"[" * 199 + b"]" * 199 + b"}"])
@example([b'{"counter":"a:b","x":' + b"1" * 5000 + b"}"])
@example([b'{"counter":"a:b","counter":"c:d","delta":0,"delta":2}'])
@example(
    [b'{"counter":"a:b","at":' + b"9" * 25 + b"}", b'{"counter":"a:b","at":"1970-01-01T00:00:00Z"}']
)
def test_json_of_every_sort_reads_as_the_model_reads_it(values: list[bytes]) -> None:
    assert_both_agree(values)


@thorough
@given(st.lists(mostly_right, min_size=1, max_size=8))
def test_events_that_are_nearly_right_read_as_the_model_reads_them(values: list[bytes]) -> None:
    assert_both_agree(values)


def as_row(written: bytes) -> dict[str, object] | None:
    """The event as a row of a frame, or None where an Arrow column cannot hold it."""
    event = json.loads(written)
    numbers = [event.get("delta"), event.get("at")]
    if any(isinstance(n, str) or (n is not None and abs(n) >= 2**63) for n in numbers):
        return None
    return {name: event.get(name) for name in FIELDS}


rows_of_frames = mostly_right.map(as_row).filter(lambda row: row is not None)


@thorough
@given(
    st.lists(rows_of_frames, min_size=1, max_size=12),
    st.sets(st.sampled_from([name for name in FIELDS if name != "counter"])),
)
def test_a_frame_of_events_reads_the_same_as_their_json(
    events: list[dict[str, object]], left_out: set[str]
) -> None:
    names = [name for name in FIELDS if name not in left_out]
    columns = {name: [event[name] for event in events] for name in names}
    values = [json.dumps({name: event[name] for name in names}).encode() for event in events]
    frame = decode(fetched([encode_frame(columns)], FRAME_HEADERS))
    one_by_one = assert_both_agree(values)

    # A row of the frame stands where the JSON event has an offset of its own.
    assert (
        frame.columns.column("row").to_pylist() == one_by_one.columns.column("offset").to_pylist()
    )
    for name in (*FIELDS, "log_ms"):
        assert frame.columns.column(name).to_pylist() == one_by_one.columns.column(name).to_pylist()
    assert [(one.row, one.reason) for one in frame.refused] == [
        (one.offset, one.reason) for one in one_by_one.refused
    ]


@settings(max_examples=400, deadline=None, print_blob=True)
@given(st.data())
def test_a_damaged_frame_is_read_or_refused_and_never_raises(data: st.DataObject) -> None:
    value = bytearray(
        encode_frame({"counter": ["a:b", "é:c", "x:y"], "delta": [1, 2, 3], "id": ["1", None, "3"]})
    )
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(0, len(value) - 1))
        value[place : place + 4] = data.draw(st.binary(max_size=8))
    decoded = decode(fetched([bytes(value)], FRAME_HEADERS))
    decoded.columns.validate(full=True)
    assert {one.offset for one in decoded.refused} <= {0}


def test_the_comparison_notices_a_decoder_that_disagrees(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pipeline.decode_json._without_doubtful", lambda values: values)
    with pytest.raises(AssertionError):
        assert_both_agree([b'{"counter":"a:b","x":"\xff"}'])
