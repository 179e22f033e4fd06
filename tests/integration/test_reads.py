"""Counts and explanations from cells in a real ClickHouse, rolled up and dropped; and a truth."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import clickhouse_connect
import pytest
from clickhouse_connect.driver import Client

from pipeline.cli import run
from pipeline.reads import counts, spans
from pipeline.reads.counts import CountAnswer, Mode, Question
from pipeline.reads.explain import explain
from pipeline.reads.last_places import last_places
from pipeline.reads.reads import FlushedShard, Reads
from pipeline.reads.status import observe_clickhouse
from pipeline.rules import CountingRules, FamilyRules
from schemas.families import parse_families
from schemas.rules import Grain
from schemas.settings import load_settings
from tests.integration.clickhouse.process import ClickHouse
from tests.integration.rollup.site import DAY_S, HOUR_S, MINUTE_S, SLOT_S, Cell, Site, seconds
from tests.kit.clocks import ManualClock
from tests.kit.tables import empty_tables

COUNTER = "likes:post-42"
TODAY = date(2026, 3, 20)
NOW_S = seconds(TODAY, 12, 30) + 20
FAMILIES = parse_families('[default]\nretention = { "1m" = "2d", "1h" = "5d" }')
SHARDS = 2
INTERVAL_MS = 60_000


@pytest.fixture(scope="module")
def door(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClickHouse]:
    with ClickHouse(tmp_path_factory.mktemp("clickhouse")) as process:
        yield process


@pytest.fixture
def site(door: ClickHouse) -> Iterator[Site]:
    """A day and a half, for a test to change."""
    client = connect(door)
    yield filled(client, days=1)
    client.close()


@pytest.fixture(scope="module")
def dropped(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Eight days, rolled up; minutes and hours that are past their retention are gone."""
    with ClickHouse(tmp_path_factory.mktemp("dropped")) as process:
        site = filled(connect(process), days=8)
        site.roll_up(SHARDS, FAMILIES)
        site.roll_up(SHARDS, FAMILIES)
        assert len(site.partitions_of("cells_1m")) < len(site.partitions_of("cells_1h")) < 9
        yield site
        site.client.close()


def connect(door: ClickHouse) -> Client:
    return clickhouse_connect.get_client(
        host=door.host, port=door.port, autogenerate_session_id=False
    )


def filled(client: Client, days: int) -> Site:
    """One counter, every 25 minutes; a tenth of it late."""
    empty_tables(client)
    site = Site(client)
    cells = []
    for number, at_s in enumerate(range(seconds(TODAY - timedelta(days)), NOW_S, 25 * 60)):
        window_s, shard = at_s - at_s % MINUTE_S, number % SHARDS
        slot_s = at_s - at_s % SLOT_S + SLOT_S * {0: 30, 2: 1}.get(number % 10, 0)
        region = "eu" if number % 3 else ""
        key = Cell(COUNTER, region, window_s, min(slot_s, NOW_S - NOW_S % SLOT_S), shard)
        cells.append((key, number + 1, number % 4))
    site.flush(cells, duplicates=1)
    flushed(site)
    return site


def flushed(site: Site, shards: Iterable[int] = range(SHARDS)) -> None:
    moment = datetime.fromtimestamp(NOW_S, UTC)
    names = ["build", "replica", "shard", "flushed_through", "log_time", "flushed_at"]
    rows = [[1, "main", shard, 700, moment, moment] for shard in shards]
    site.client.insert("tally.positions", rows, column_names=names)


def reads_of(site: Site, later_s: float = 1.0) -> Reads:
    return Reads(site.client, ManualClock(NOW_S + later_s))


def ask(site: Site, question: Question, mode: Mode = "exact") -> CountAnswer:
    return counts.count(reads_of(site), question, mode, INTERVAL_MS)


def truth(site: Site, since_s: int = 0, until_s: int = NOW_S, region: str | None = None) -> int:
    return sum(
        p - n
        for cell, (p, n) in site.truth.cells.items()
        if since_s <= cell.window_s < until_s and region in {None, cell.region}
    )


def test_a_shard_is_as_far_as_its_rows_together_whether_merged_or_not(site: Site) -> None:
    client, at = site.client, "2026-03-20 12:00:0"
    client.command("TRUNCATE TABLE tally.positions")
    client.command("SYSTEM STOP MERGES tally.positions")
    try:
        for row in (
            f"(1, 'main', 0, 7, '{at}1', '{at}1', 3, '{at}1', 2)",
            f"(1, 'main', 0, 9, '{at}2', '{at}2', 3, '{at}1', 2)",
            f"(1, 'main', 0, 8, '{at}1', '{at}1', 5, '{at}3', 1)",
            f"(1, 'main~1', 0, 2, '{at}0', '{at}4', 1, '{at}2', 1)",
            f"(1, 'main', 1, 4, '{at}0', '{at}0', 4, '{at}0', 1)",
            f"(2, 'main', 1, 99, '{at}9', '{at}9', 99, '{at}9', 9)",
        ):
            client.command(
                "INSERT INTO tally.positions (build, replica, shard, flushed_through, log_time, "
                f"flushed_at, checkpoint_through, checkpointed_at, rules_version) VALUES {row}"
            )
        apart = reads_of(site).positions()
    finally:
        client.command("SYSTEM START MERGES tally.positions")
    noon_ms = seconds(date(2026, 3, 20), 12) * 1000
    after = noon_ms + 4000, 1, noon_ms + 3000, noon_ms + 2000, 2, "main~1"
    assert apart == [
        FlushedShard(0, 2, *after, build=1),
        FlushedShard(1, 4, noon_ms, 4, noon_ms, noon_ms, 1, "main", build=1),
    ]
    client.command("OPTIMIZE TABLE tally.positions FINAL")
    assert reads_of(site).positions() == apart


def test_a_shard_is_where_its_log_is_now_though_the_clock_of_the_one_before_was_ahead(
    site: Site,
) -> None:
    client, at = site.client, "2026-03-20 12:00:0"
    client.command("TRUNCATE TABLE tally.positions")
    client.command(
        "INSERT INTO tally.positions (build, replica, shard, flushed_through, log_time, flushed_at)"
        f" VALUES (1, 'main', 0, 700, '{at}1', '{at}9'), (1, 'main~2', 0, 5, '{at}2', '{at}4'), "
        f"(1, 'main~10', 0, 3, '{at}3', '{at}3')"
    )
    client.command(
        "INSERT INTO tally.cells_1m (build, counter, window, slot, replica, shard, p, through) "
        f"VALUES (1, 'likes:both', '{at}0', '{at}0', 'main', 0, 9, 700), "
        f"(1, 'likes:both', '{at}0', '{at}0', 'main~10', 0, 1, 2)"
    )
    [found] = reads_of(site).positions()
    assert (found.replica, found.flushed_through) == ("main~10", 3)
    assert list(last_places(reads_of(site), ["likes:both"])["likes:both"].items()) == [(0, 2)]


def test_totals_and_windows_are_right_after_old_minutes_and_hours_were_dropped(
    dropped: Site,
) -> None:
    everything = Question(COUNTER)
    assert ask(dropped, everything).net == truth(dropped)
    assert ask(dropped, replace(everything, region="eu")).net == truth(dropped, region="eu")
    grains: dict[Grain, int] = {"1h": HOUR_S, "1d": DAY_S}
    for by, grain_s in grains.items():
        days = 4 if by == "1h" else 7
        since_s = seconds(TODAY - timedelta(days=days))
        answer = ask(dropped, Question(COUNTER, by, spans.Span(since_s * 1000)))
        expected = dropped.truth.windows(grain_s, since_s)
        sums: dict[str, int] = {}
        for (_, _, at_s), count in expected.items():
            window = spans.window_text(at_s * 1000)
            sums[window] = sums.get(window, 0) + count
        assert {row.window: row.count for row in answer.windows} == sums
        assert answer.net == sum(sums.values())
        assert answer.remarks == []


def test_a_sliding_span_sums_minutes_and_whole_hours_where_minutes_are_gone(dropped: Site) -> None:
    for ago_s in (HOUR_S, DAY_S):
        since_s = NOW_S - ago_s
        answer = ask(dropped, Question(COUNTER, "1h", spans.Span(since_s * 1000)))
        assert answer.net == truth(dropped, since_s) == sum(row.count for row in answer.windows)
        assert answer.remarks == []
    long_ago_s = NOW_S - 4 * DAY_S
    answer = ask(dropped, Question(COUNTER, None, spans.Span(long_ago_s * 1000)))
    assert answer.net == truth(dropped, long_ago_s - long_ago_s % HOUR_S + HOUR_S)
    [said] = answer.remarks
    assert said.startswith("minutes of the hour from 2026-03-16T12:00:00Z are gone")
    until = spans.Span.of(None, (NOW_S - HOUR_S) * 1000)
    assert ask(dropped, Question(COUNTER, None, until)).net == truth(dropped, 0, NOW_S - HOUR_S)


def test_a_sum_is_exact_or_remarked_on_whatever_the_span(dropped: Site) -> None:
    begin_s, exact = seconds(TODAY - timedelta(days=8)), 0
    for number in range(8):
        # Every other one begins at a whole hour.
        since_s = begin_s + number * (23 * HOUR_S + (11 * 60 if number % 2 else 0))
        for until_s in (since_s + 5 * HOUR_S + 7 * 60, seconds(TODAY)):
            span = spans.Span(since_s * 1000, max(until_s, since_s + 60) * 1000)
            answer = ask(dropped, Question(COUNTER, None, span))
            right = answer.net == truth(dropped, since_s, span.until_ms // 1000)
            assert right or answer.remarks, (since_s, until_s)
            exact += right and not answer.remarks
    assert exact >= 5


def test_minutes_that_are_gone_are_told_where_minutes_are_asked_for(dropped: Site) -> None:
    since_s = seconds(TODAY - timedelta(days=4))
    for span in (spans.Span(since_s * 1000), None):
        answer = ask(dropped, Question(COUNTER, "1m", span))
        assert answer.net == truth(dropped, since_s if span else 0)
        assert 0 < sum(row.count for row in answer.windows) < answer.net
        [said] = answer.remarks
        assert said.endswith("they are in the total, but not listed")


def test_a_file_that_workers_do_not_have_changes_no_sum(
    dropped: Site,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    file = tmp_path / "tally.toml"
    file.write_text('[default]\nretention = { "1m" = "4000d", "1h" = "4000d" }')
    monkeypatch.setenv("TALLY_CONFIG", str(file))
    monkeypatch.setenv("TALLY_CLICKHOUSE", dropped.client.url)  # type: ignore[attr-defined]
    for since, since_s in {
        "2026-03-13": seconds(TODAY - timedelta(days=7)),
        "2026-03-16T12:00": seconds(TODAY - timedelta(days=4), 12),
    }.items():
        assert run(["count", COUNTER, "--since", since, "--json"]) == 0
        found = json.loads(capsys.readouterr().out)
        assert found["net"] == truth(dropped, since_s)
        assert "remarks" not in found


def test_days_that_a_family_forgot_are_told_and_the_total_of_all_time_has_them(site: Site) -> None:
    old_s = seconds(TODAY - timedelta(days=60), 10)
    site.flush([(Cell(COUNTER, "eu", old_s, old_s, 0), 9, 0)])
    families = parse_families('[default]\nretention = { "1m" = "2d", "1h" = "5d", "1d" = "10d" }')
    since = spans.Span((old_s - DAY_S) * 1000)
    site.roll_up(SHARDS, families)
    for _ in range(3):
        site.roll_up(SHARDS, families)
    answer = ask(site, Question(COUNTER, "1d", since))
    assert answer.net == truth(site) - 9
    [said] = answer.remarks
    assert said.startswith("days before 2026-02-01T00:05:00Z are gone")
    assert ask(site, Question(COUNTER)).net == truth(site)
    lately = ask(site, Question(COUNTER, "1d", spans.Span(seconds(date(2026, 3, 1)) * 1000)))
    assert lately.remarks == []


def test_cached_is_as_old_as_the_last_rollup_and_exact_is_not(site: Site) -> None:
    question = Question(COUNTER, "1d")
    before = ask(site, question, "cached")
    assert (before.total, before.as_of, before.complete) == (0, None, False)
    site.roll_up(SHARDS, FAMILIES)
    rolled = truth(site)
    slot_s = NOW_S - NOW_S % SLOT_S
    site.flush([(Cell(COUNTER, "eu", slot_s, slot_s, 0), 5, 0)])
    cached, exact = ask(site, question, "cached"), ask(site, question)
    assert (cached.net, exact.net) == (rolled, rolled + 5)
    assert sum(row.count for row in cached.windows) == rolled
    assert (cached.mode, cached.staleness_ms, cached.complete) == ("cached", 1_000, True)
    # What was not rolled up cannot be cached.
    assert ask(site, Question(COUNTER, "1m"), "cached").mode == "exact"
    late = counts.count(reads_of(site, 999), question, "cached", INTERVAL_MS)
    assert not late.complete


def test_a_missing_shard_makes_the_answer_incomplete(site: Site) -> None:
    assert ask(site, Question(COUNTER)).complete
    flushed(site, [SHARDS + 1])
    assert not ask(site, Question(COUNTER)).complete


def test_a_negative_total_is_shown_as_zero_beside_its_net_and_windows_are_raw(site: Site) -> None:
    slot_s = NOW_S - NOW_S % SLOT_S
    site.flush([(Cell("likes:debt", "", slot_s, slot_s, 0), 1, 4)])
    answer = ask(site, Question("likes:debt", "1m"))
    assert (answer.total, answer.net) == (0, -3)
    assert [row.count for row in answer.windows] == [-3]
    assert "capped" not in answer.document()
    assert "remarks" not in answer.document()


def test_a_capped_family_is_told_for_the_time_in_which_it_spilled(site: Site) -> None:
    slot_s = NOW_S - NOW_S % SLOT_S
    site.flush([(Cell("views:", "", slot_s - HOUR_S, slot_s, 0), 3, 0)])
    assert ask(site, Question("views:home")).document()["capped"] is True
    assert ask(site, Question("views:home", region="eu")).document()["capped"] is True
    lately = spans.Span((NOW_S - 600) * 1000)
    assert ask(site, Question("views:home", None, lately)).spilled_to is None
    assert ask(site, Question(COUNTER)).spilled_to is None
    # Families that no rule names share a cap; those that are named do not.
    site.flush([(Cell(":", "", slot_s, slot_s, 0), 3, 0)])
    assert ask(site, Question(COUNTER)).spilled_to == ":"
    rules = CountingRules(5, families={"likes": FamilyRules()})
    row = [[5, rules.bytes.decode(), datetime.fromtimestamp(NOW_S, UTC), ""]]
    site.client.insert(
        "tally.rules", row, column_names=["version", "document", "applied_at", "note"]
    )
    assert ask(site, Question(COUNTER)).spilled_to is None
    assert ask(site, Question("other:x")).spilled_to == ":"


def test_an_explanation_adds_up_and_tells_what_was_late(site: Site) -> None:
    site.roll_up(SHARDS)
    found = explain(reads_of(site), COUNTER, None)
    cells = site.truth.cells
    assert found.net == truth(site) == sum(part.net for part in found.shards)
    assert (found.p, found.n) == tuple(map(sum, zip(*cells.values(), strict=True)))
    late = [values for cell, values in cells.items() if cell.window_s + 600 < cell.slot_s]
    assert late
    assert (found.late_p, found.late_n) == tuple(map(sum, zip(*late, strict=True)))
    assert found.duplicates == len(cells)
    assert [part.shard for part in found.shards] == [0, 1]
    part = found.shards[0]
    mine = [cell for cell in cells if cell.shard == 0]
    assert part.minutes is not None
    assert part.minutes.cells == len(mine)
    assert part.minutes.slots == len({cell.slot_s for cell in mine})
    assert part.minutes.first_window == spans.window_text(min(c.window_s for c in mine) * 1000)
    assert part.minutes.through == 1
    assert part.rolled_up == {"p": part.p, "n": part.n}
    assert part.flushed_through == 700
    assert (found.adjustments.count, found.adjustments.by) == (0, 0)


def test_an_explanation_of_a_dropped_hour_still_has_its_value(dropped: Site) -> None:
    hour_s = seconds(TODAY - timedelta(days=4), 10)
    span = spans.Span(hour_s * 1000, (hour_s + HOUR_S) * 1000)
    found = explain(reads_of(dropped), COUNTER, span)
    assert found.net == truth(dropped, hour_s, hour_s + HOUR_S) != 0
    assert all(part.minutes is None for part in found.shards)
    assert (found.since, found.until) == ("2026-03-16T10:00:00Z", "2026-03-16T11:00:00Z")


def test_an_explanation_finds_dead_letters_that_name_the_counter(site: Site) -> None:
    names = ["build", "shard", "offset", "row", "log_time", "reason", "bytes", "sample"]
    moments = [datetime.fromtimestamp(NOW_S - age, UTC) for age in (50, 40, 30)]
    samples = ['{"counter": "likes:post-42"}', '{"counter":"likes:post-42"}', '"likes:post-421"']
    rows = [
        [1, 0, number, 0, at, f"reason {number}", 9, sample]
        for number, (at, sample) in enumerate(zip(moments, samples, strict=True))
    ]
    for block in (rows, rows):  # written twice, as after a crash
        site.client.insert("tally.dead_letters", block, column_names=names)
    found = explain(reads_of(site), COUNTER, None)
    assert (found.dead_letters.count, found.dead_letters.last_reason) == (2, "reason 1")


def test_status_reads_freshness_letters_rollups_and_spills(site: Site) -> None:
    now = datetime.now(UTC)
    reads = Reads(site.client, ManualClock(now.timestamp()))
    samples: list[list[object]] = [
        [1, shard, now, ms] for shard in (0, 1) for ms in (100, 200, 300 + shard)
    ]
    samples.append([1, 0, now - timedelta(minutes=6), 60_000])
    columns = ["build", "shard", "at", "freshness_ms"]
    site.client.insert("tally.freshness", samples, column_names=columns)
    letters = [
        [1, 0, number, 0, now - timedelta(hours=hours), reason, 9, ""]
        for number, (hours, reason) in enumerate([(0, "b"), (0, "b"), (0, "a"), (2, "a"), (3, "a")])
    ]
    names = ["build", "shard", "offset", "row", "log_time", "reason", "bytes", "sample"]
    for block in (letters, letters):  # written twice, as after a crash
        site.client.insert("tally.dead_letters", block, column_names=names)
    slot_s = int(now.timestamp()) // SLOT_S * SLOT_S
    site.flush(
        [(Cell("likes:", "", slot_s, slot_s, 0), 7, 2), (Cell(":", "", slot_s, slot_s, 1), 1, 0)]
    )
    site.roll_up(SHARDS)
    found = observe_clickhouse(reads, load_settings(), {0: 701, 1: 701})
    assert found.freshness is not None
    assert (found.freshness.samples, found.freshness.p99_ms) == (6, 301)
    assert found.shard_freshness[0].p50_ms == 200
    assert (found.letters.total, found.letters.last_hour, found.letters.reason) == (5, 3, "b")
    assert set(found.rollup_ages_ms) == {"likes", ""}
    assert all(age_ms < 60_000 for age_ms in found.rollup_ages_ms.values())
    assert [(spill.family, spill.amount) for spill in found.spills] == [("likes", 9), ("", 1)]
