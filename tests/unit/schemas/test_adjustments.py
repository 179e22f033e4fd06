"""An adjustment as the log has it: what is taken, what is refused and why."""

import json
from typing import Any

import pytest

from pipeline.errors import BadInputError
from schemas.adjustments import check_draft, read_adjustment

WHOLE: dict[str, Any] = {
    "id": "case-811",
    "counter": "hashtag:#cats",
    "by": -17,
    "who": "ann",
    "why": "bought followers",
    "before": 120,
    "after": 103,
    "at": 1_794_800_000_000,
}
DAY_MS = 20_000 * 86_400_000


def read(**changed: object) -> Any:
    kept = {name: value for name, value in {**WHOLE, **changed}.items() if value != "left out"}
    return read_adjustment(json.dumps(kept).encode())


def test_what_is_written_is_read_again() -> None:
    made = read(region="eu", grain="1d", window=DAY_MS)
    assert read_adjustment(made.bytes()) == made
    assert made.contents == (-17, "eu", "1d", DAY_MS)
    assert read().target == ("", 0)


def test_a_window_may_be_a_text_or_milliseconds() -> None:
    as_text = read(grain="1h", window="2026-11-16T08:00:00Z")
    assert as_text == read(grain="1h", window=as_text.window)


@pytest.mark.parametrize("by", [2**63 - 1, -(2**63), 1, -1])
def test_any_amount_of_64_bits_but_0_is_taken(by: int) -> None:
    assert read(by=by).by == by


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"by": 0}, "by: 0 changes nothing"),
        ({"by": 2**63}, "by: beyond 64 bits"),
        ({"by": 1.5}, "by: not a whole number"),
        ({"by": "left out"}, "by: missing"),
        ({"counter": "cats"}, "counter: has no family; write family:key"),
        ({"counter": "cats:"}, "counter: has no key; write family:key"),
        ({"who": " "}, "who: empty"),
        ({"why": "left out"}, "why: missing"),
        ({"why": "x" * 1001}, "why: longer than 1000 bytes"),
        ({"id": "left out"}, "id: missing"),
        ({"region": "*"}, "region: '*' means all regions and is only for queries"),
        ({"windows": DAY_MS}, "windows: unknown field"),
        ({"window": DAY_MS}, "grain, window: give both or none of them"),
        ({"grain": "1d"}, "grain, window: give both or none of them"),
        ({"grain": "1w", "window": DAY_MS}, "grain: not one of 1m, 1h, 1d"),
        ({"grain": "1h", "window": DAY_MS + 60_000}, "window: no window of 1h begins there"),
        ({"before": 2**64}, "before: beyond 64 bits"),
        ({"by": 0, "who": ""}, "by: 0 changes nothing; who: empty; leave it out instead"),
    ],
)
def test_a_bad_one_is_refused_with_its_reason(changed: dict[str, object], reason: str) -> None:
    with pytest.raises(BadInputError) as refused:
        read(**changed)
    assert str(refused.value) == f"adjustment: {reason}"


@pytest.mark.parametrize("value", [b"", b"{", b"\xff", b"[]", b"7", b"NaN"])
def test_what_is_no_object_is_refused(value: bytes) -> None:
    with pytest.raises(BadInputError, match=r"^adjustment: "):
        read_adjustment(value)


def test_the_window_of_1970_is_a_window() -> None:
    assert read(grain="1d", window=0).target == ("1d", 0)


def test_a_draft_needs_neither_who_nor_why_nor_id() -> None:
    draft = check_draft({"counter": "a:b", "by": 3, "who": None})
    assert (draft.who, draft.why, draft.id, draft.contents) == (None, None, None, (3, "", "", 0))


def test_of_many_reasons_the_first_are_told_and_the_rest_counted() -> None:
    unknown = {f"unknown-{number:02}-{'x' * 100}": 1 for number in range(20)}
    with pytest.raises(BadInputError) as caught:
        read(**unknown)
    *told, rest = str(caught.value).partition(": ")[2].split("; ")
    assert told == [f"{name[:40]}: unknown field" for name in list(unknown)[:12]]
    assert rest == "and 8 more"
