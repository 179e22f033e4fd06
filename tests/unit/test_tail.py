"""What `tally tail` shows of a fetch, and the line it makes of it."""

import json
from typing import Any

import numpy as np
import pytest

from pipeline.cli.tail import line_of
from pipeline.tail.shown import SAMPLE_BYTES, Wanted, seen
from schemas.frames import FRAME_CONTENT_TYPE, encode_frame
from schemas.records import Headers, Records

LOG_MS = 1_790_000_000_000
LOG_TIME = "2026-09-21T14:13:20.000Z"
FRAME: Headers = (("content-type", FRAME_CONTENT_TYPE.encode()),)
RULES: Headers = (("tally-kind", b"rules"),)


def fetched(*records: tuple[bytes | None, Headers]) -> Records:
    return Records(
        partition=3,
        offsets=np.arange(len(records), dtype=np.int64) + 100,
        timestamps_ms=np.full(len(records), LOG_MS, np.int64),
        keys=[None] * len(records),
        values=[value for value, _ in records],
        headers=[headers for _, headers in records],
    )


def event(counter: str, **fields: object) -> tuple[bytes, Headers]:
    return json.dumps({"counter": counter, **fields}).encode(), ()


MIXED = fetched(
    event("likes:a", region="eu", member="ada", id="x", at=5),
    (b"nonsense", ()),
    (b'{"version": 1}', RULES),
    (encode_frame({"counter": ["likes:b", "likes", "views:c"], "delta": [-2, 1, 1]}), FRAME),
    event("likesandmore:a"),
)


def places(documents: list[dict[str, Any]]) -> list[tuple[str, str]]:
    return [(document["kind"], document["place"]) for document in documents]


def test_events_and_refused_records_come_in_log_order_with_frames_unpacked() -> None:
    assert places(seen(MIXED, Wanted())) == [
        ("event", "3/100/0"),
        ("refused", "3/101/0"),
        ("event", "3/103/0"),
        ("refused", "3/103/1"),
        ("event", "3/103/2"),
        ("event", "3/104/0"),
    ]


def test_an_event_has_all_its_fields_and_both_times() -> None:
    assert seen(MIXED, Wanted())[0] == {
        "kind": "event", "place": "3/100/0", "log_time": LOG_TIME,
        "at": "1970-01-01T00:00:00.005Z", "counter": "likes:a", "delta": 1, "region": "eu",
        "member": "ada", "id": "x",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        (Wanted(family="likes"), ["3/100/0", "3/103/0"]),
        (Wanted(counter="views:c"), ["3/103/2"]),
        (Wanted(region="eu"), ["3/100/0"]),
        (Wanted(family="likes", region=""), ["3/103/0"]),
        (Wanted(refused_only=True), ["3/101/0", "3/103/1"]),
        (Wanted(refused_only=True, control=True), ["3/101/0", "3/102/0", "3/103/1"]),
        (Wanted(counter="nobody:here"), []),
    ],
)
def test_only_what_is_wanted_is_shown(wanted: Wanted, expected: list[str]) -> None:
    assert [document["place"] for document in seen(MIXED, wanted)] == expected


def test_control_records_are_left_out_unless_asked_for() -> None:
    kinds = [document["kind"] for document in seen(MIXED, Wanted())]
    assert "control" not in kinds
    [control] = [one for one in seen(MIXED, Wanted(control=True)) if one["kind"] == "control"]
    assert (control["control"], control["place"]) == ("rules", "3/102/0")


def test_of_a_large_refused_record_only_the_start_is_shown() -> None:
    [refused] = seen(fetched((b"\xff" * 10_000, ())), Wanted())
    assert (refused["bytes"], len(refused["sample"])) == (10_000, SAMPLE_BYTES)


def test_a_line_has_time_counter_delta_region_member_id_and_place() -> None:
    lines = [line_of(document) for document in seen(MIXED, Wanted())]
    assert lines[0] == (
        "1970-01-01T00:00:00.005Z  likes:a  +1  region=eu  member=ada  id=x  3/100/0"
    )
    assert lines[1] == f"{LOG_TIME}  refused: not JSON  nonsense  3/101/0"
    assert lines[2] == f"{LOG_TIME}  likes:b  -2  3/103/0"


def test_nothing_in_an_event_reaches_the_terminal_as_a_command() -> None:
    evil = "a:\x1b[2J\n\u202e"
    records = fetched(
        event(evil, member="m\x07", region="r\x9b", id="i\r"), (b"\x1b]0;x\x07", ()),
        (b"\x1b[2J", (("tally-kind", b"k\x1b"),)),
    )  # fmt: skip
    lines = [line_of(document) for document in seen(records, Wanted(control=True))]
    assert len(lines) == 3
    assert all(line.isprintable() for line in lines)
