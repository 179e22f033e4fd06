"""Bodies of many increments, and files of many windows: no line and no number is mixed up."""

import asyncio
import io
from types import SimpleNamespace
from typing import cast

import pyarrow.csv as pa_csv
import pyarrow.parquet as pa_parquet
import pytest
from starlette.requests import Request
from starlette.types import Message

from pipeline.errors import BadInputError, TryAgainError
from pipeline.rules import EARLINESS_MS, CountingRules, FamilyRules
from pipeline.web import bulk
from pipeline.web import timely as timely_module
from pipeline.web.asking import Asking
from pipeline.web.exports import accepted, exported
from pipeline.web.limits import INCREMENT_BYTES_MAX, Slots, read_body
from pipeline.web.timely import AGE_S, OLD_S, RETRY_S, Timely
from tests.unit.web.world import World, settled

NOW_MS = 1_000_000_000_000
DAY_MS = 86_400_000


def test_refused_and_good_lines_keep_their_numbers_between_blank_ones() -> None:
    body = (
        b'\n{"counter":"likes:a"}\r\n   \nnope\n{"counter":"views:b","delta":2}\n\n'
        b'{"counter":"bad"}\n{"counter":"likes:c","at":"2001-09-09T01:46:40Z"}'
    )
    found = bulk.checked(body, NOW_MS)
    assert found.numbers == [2, 5, 8]
    assert found.columns["counter"].to_pylist() == ["likes:a", "views:b", "likes:c"]
    assert found.families == ["likes", "views"]
    assert [(one.number, one.reason) for one in found.refused] == [
        (4, "not JSON"),
        (7, "counter: has no family; write family:key"),
    ]


def test_numbers_go_on_over_the_blocks_a_body_is_read_in() -> None:
    line = b'{"counter":"likes:%06d","member":"' + b"x" * 200 + b'"}'
    lines = [line % number for number in range(9_000)]
    lines[1] = lines[4_400] = b""
    lines[8_999] = b"nope"
    found = bulk.checked(b"\n".join(lines), NOW_MS)
    assert len(found.numbers) == 8_997
    names = found.columns["counter"].to_pylist()
    assert all(
        name == f"likes:{number - 1:06d}" for name, number in zip(names, found.numbers, strict=True)
    )
    assert [one.number for one in found.refused] == [9_000]


def test_a_body_of_blank_lines_or_none_is_refused_and_rows_can_be_left_out() -> None:
    for body in (b"", b"\n \r\n"):
        with pytest.raises(BadInputError, match="no lines"):
            bulk.checked(body, NOW_MS)
    found = bulk.checked(b"nope", NOW_MS)
    assert (found.columns.num_rows, len(found.refused)) == (0, 1)
    three = bulk.checked(b'{"counter":"a:1"}\n{"counter":"a:2"}\n{"counter":"a:3"}', NOW_MS)
    assert bulk.without(three.columns, [1])["counter"].to_pylist() == ["a:1", "a:3"]
    assert bulk.without(three.columns, []) is three.columns


class Rules:
    """A Timely with rules that a test gives."""

    def __init__(self, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
        self.world = world
        self.found: CountingRules | None = CountingRules(
            families={"slow": FamilyRules(lateness_ms=7 * DAY_MS)}
        )
        self.asked = 0
        monkeypatch.setattr("pipeline.web.timely.newest_rules", self.newest)
        world.clock.now_s = NOW_MS / 1000
        self.timely = Timely(world.asking, world.clock)

    def newest(self, _: object) -> CountingRules | None:
        self.asked += 1
        return self.found


@pytest.fixture
def rules(world: World, monkeypatch: pytest.MonkeyPatch) -> Rules:
    return Rules(world, monkeypatch)


async def test_times_are_refused_by_the_rules_of_their_family(rules: Rules) -> None:
    check = rules.timely.refusal
    old_ms = NOW_MS - 2 * DAY_MS
    assert await check("likes:a", None) is None
    assert rules.asked == 0
    assert await check("likes:a", NOW_MS + EARLINESS_MS) is None
    assert await check("likes:a", NOW_MS + EARLINESS_MS + 1) == "at: more than 300 s ahead"
    assert await check("likes:a", old_ms) == "at: more than 86400 s ago, too late"
    assert await check("slow:a", old_ms) is None
    assert rules.asked == 1
    rules.world.clock.advance(AGE_S + 1)
    assert await check("slow:a", old_ms) is None
    await settled()
    assert rules.asked == 2


async def test_rows_of_a_body_are_refused_as_single_increments_are(rules: Rules) -> None:
    old_ms, far_ms = NOW_MS - 2 * DAY_MS, NOW_MS + DAY_MS
    body = b"\n".join(
        b'{"counter":"%s:a","at":%d}' % (family, at_ms)
        for family, at_ms in [
            (b"likes", NOW_MS),
            (b"likes", old_ms),
            (b"slow", old_ms),
            (b"slow", far_ms),
        ]
    )
    found = await rules.timely.refused(bulk.checked(body, NOW_MS).columns)
    assert found == [
        (1, "at: more than 86400 s ago, too late"),
        (3, "at: more than 300 s ahead"),
    ]


async def test_where_no_rules_are_known_only_the_pipeline_can_say_what_is_too_late(
    rules: Rules,
) -> None:
    rules.world.error = TryAgainError("away")
    assert await rules.timely.refusal("slow:a", NOW_MS - 30 * DAY_MS) is None
    assert await rules.timely.refusal("slow:a", NOW_MS + DAY_MS) is not None
    rules.world.error = None
    rules.world.clock.advance(RETRY_S)
    assert await rules.timely.refusal("slow:a", NOW_MS - 30 * DAY_MS) is not None
    rules.world.error = TryAgainError("away")
    rules.world.clock.advance(AGE_S + 1)
    assert await rules.timely.refusal("slow:a", NOW_MS - 30 * DAY_MS) is not None


async def test_a_clickhouse_that_hangs_holds_up_no_write_for_long(
    rules: Rules, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(timely_module, "WAIT_S_MAX", 0.02)
    check = rules.timely.refusal
    rules.world.open.clear()
    assert await asyncio.wait_for(check("slow:a", NOW_MS - 30 * DAY_MS), 5) is None
    rules.world.open.set()
    await settled()
    assert await check("slow:a", NOW_MS - 30 * DAY_MS) is not None
    rules.world.open.clear()
    rules.world.clock.advance(AGE_S + 1)
    # Those who know rules do not wait at all.
    write = asyncio.create_task(check("slow:a", NOW_MS - 30 * DAY_MS))
    await settled(5)
    assert write.done()
    assert write.result() is not None


async def test_rules_that_are_known_for_long_are_looked_for_before_a_write_goes_by_them(
    rules: Rules,
) -> None:
    old_ms = NOW_MS - 2 * DAY_MS
    assert await rules.timely.refusal("likes:a", old_ms) is not None
    rules.found = CountingRules(families={"likes": FamilyRules(lateness_ms=7 * DAY_MS)})
    rules.world.clock.advance(OLD_S + 1)
    assert await rules.timely.refusal("likes:a", old_ms) is None


async def test_a_look_for_rules_that_failed_is_not_repeated_by_every_write(rules: Rules) -> None:
    await rules.timely.refusal("likes:a", NOW_MS)
    rules.world.clock.advance(OLD_S + 1)
    looks = 0

    async def ask(_: object) -> None:
        nonlocal looks
        looks += 1
        raise TryAgainError("away")

    rules.timely._asking = cast("Asking", SimpleNamespace(ask=ask))
    for _ in range(9):
        await rules.timely.refusal("likes:a", NOW_MS)
    assert looks == 1
    rules.world.clock.advance(RETRY_S)
    await rules.timely.refusal("likes:a", NOW_MS)
    assert looks == 2


async def test_where_none_were_applied_the_defaults_hold(rules: Rules) -> None:
    rules.found = None
    assert await rules.timely.refusal("slow:a", NOW_MS - 2 * DAY_MS) is not None


def test_so_many_at_once_and_one_more_is_refused() -> None:
    slots = Slots(1)
    with slots.taken(), pytest.raises(TryAgainError), slots.taken():
        pass
    with pytest.raises(ZeroDivisionError), slots.taken():
        _ = 1 // 0
    with slots.taken():
        pass


def request_with(body: bytes, *headers: tuple[bytes, bytes]) -> Request:
    async def receive() -> Message:
        return {"type": "http.request", "body": body, "more_body": False}

    return Request({"type": "http", "method": "POST", "headers": list(headers)}, receive)


@pytest.mark.parametrize("size", [4, 6])
async def test_a_body_that_is_not_as_long_as_was_announced_is_refused(size: int) -> None:
    """One whose body was lost on the way was counted as an increment of one, without an id."""
    announced = (b"content-length", b"5")
    for body in (bytes(size), b""):
        with pytest.raises(BadInputError, match=f"has {len(body)} bytes, not 5 as its"):
            await read_body(request_with(body, announced), INCREMENT_BYTES_MAX)
    assert await read_body(request_with(b"abcde", announced), INCREMENT_BYTES_MAX) == b"abcde"
    assert await read_body(request_with(b"abcde"), INCREMENT_BYTES_MAX) == b"abcde"


WINDOWS = [
    {"window": "2026-11-16T08:00:00Z", "count": 3},
    {"window": "2026-11-16T09:00:00Z", "count": -2},
]


def document(windows: list[dict[str, object]]) -> dict[str, object]:
    return {
        "counter": 'likes:"a",\nb',
        "windows": windows,
        "as_of": "2026-11-16T09:30:00.000Z",
        "complete": False,
    }


@pytest.mark.parametrize("wide", [5, 2**100])
def test_csv_and_parquet_have_the_windows_of_the_document(wide: int) -> None:
    windows = [{**row, "low": 1, "high": wide} for row in WINDOWS]
    csv = exported(document(windows), "csv", {"Cache-Control": "private, no-cache"})
    assert csv.headers["cache-control"] == "private, no-cache"
    assert (csv.headers["tally-complete"], csv.headers["tally-as-of"]) == (
        "false",
        "2026-11-16T09:30:00.000Z",
    )
    assert csv.headers["content-type"].startswith("text/csv")
    options = pa_csv.ParseOptions(newlines_in_values=True)
    table = pa_csv.read_csv(io.BytesIO(bytes(csv.body)), parse_options=options)
    assert table.column_names == ["counter", "window", "count", "low", "high"]
    assert table["counter"].to_pylist() == ['likes:"a",\nb'] * 2
    assert table["count"].to_pylist() == [3, -2]
    parquet = exported(document(windows), "parquet", {})
    stored = pa_parquet.read_table(io.BytesIO(bytes(parquet.body)))
    assert [int(one) for one in stored["high"].to_pylist()] == [wide, wide]
    assert [one.isoformat() for one in stored["window"].to_pylist()] == [
        "2026-11-16T08:00:00+00:00",
        "2026-11-16T09:00:00+00:00",
    ]


@pytest.mark.parametrize("wanted", ["csv", "parquet"])
def test_no_windows_are_a_file_with_columns_and_no_rows(wanted: str) -> None:
    found = exported(document([]), wanted, {})  # type: ignore[arg-type]  # one of the formats
    assert found.status_code == 200
    assert b"counter" in bytes(found.body)


@pytest.mark.parametrize(
    ("header", "wanted"),
    [
        ("", "json"),
        ("*/*", "json"),
        ("text/html,application/json", "json"),
        ("text/csv", "csv"),
        ("text/csv, application/json", "csv"),
        ("application/json, text/csv", "json"),
        ("application/vnd.apache.parquet", "parquet"),
    ],
)
def test_the_format_named_first_is_taken(header: str, wanted: str) -> None:
    assert accepted(header) == wanted
