"""What adjustments never reach: cells, rollups and trends. And how quickly one is found."""

from collections.abc import Sequence
from datetime import UTC, datetime

import pytest

from pipeline.adjustments import values as values_module
from pipeline.adjustments.values import stored, values
from pipeline.clock import SystemClock
from pipeline.reads.reads import Reads
from pipeline.rules import CountingRules, FamilyRules, TrendRules
from pipeline.trends.scoring import TrendScoring
from pipeline.trends.transitions import Transition
from schemas.adjustments import check_draft
from schemas.families import Families
from tests.integration.rollup.site import DAY_S, HOUR_S, MINUTE_S, REPLICA, Cell, Site

W_S = 1_773_144_000  # 2026-03-10 12:00
RULES = CountingRules(3, FamilyRules(trends=TrendRules(min_count=50, min_uniques=0)))
NAMES = ["build", "counter", "id", "region", "grain", "window", "by", "log_time", "shard", "offset"]


def adjust(site: Site, counter: str, by: int, grain: str, window_s: int) -> None:
    window = datetime.fromtimestamp(window_s, UTC)
    row = [site.build, counter, "x", "eu", grain, window, by, window, 0, 0]
    site.client.insert("tally.adjustments", [row], column_names=NAMES)


def fill(site: Site) -> None:
    """Two hours of a steady stream up to W, every shard's log time past it."""
    site.flush(
        [
            (Cell(f"tag:usual-{name}", "eu", at_s, at_s, 0), 20, 0)
            for at_s in range(W_S - 7200, W_S + MINUTE_S, MINUTE_S)
            for name in range(12)
        ]
    )
    log_time = datetime.fromtimestamp(W_S + 2 * MINUTE_S, UTC)
    names = ["build", "replica", "shard", "flushed_through", "log_time", "flushed_at"]
    row = [site.build, REPLICA, 0, 1, log_time, datetime.now(UTC)]
    site.client.insert("tally.positions", [row], column_names=names)


def scored(site: Site) -> tuple[list[tuple[object, ...]], list[str]]:
    """What the trends are, and who was told to enter."""
    told: list[str] = []

    def send(found: Sequence[Transition]) -> None:
        told.extend(one.counter for one in found)

    TrendScoring(site.client, site.build, REPLICA, Families(), send=send, clock=SystemClock()).run(
        1, RULES
    )
    rows = site.rows("SELECT counter, region, observed, expected, score FROM tally.trend_scores")
    return sorted(rows, key=str), told


def test_no_adjustment_changes_a_trend(site: Site) -> None:
    fill(site)
    expected = scored(site)
    assert expected[0], "nothing was scored at all"
    site.client.command("TRUNCATE TABLE tally.trend_scores")
    for table in ("trend_windows", "trend_open", "trend_families"):
        site.client.command(f"TRUNCATE TABLE tally.{table}")
    adjust(site, "tag:usual-1", 1_000_000, "1m", W_S)
    adjust(site, "tag:usual-2", -1_000_000, "1h", W_S)
    adjust(site, "tag:burst", 1_000_000, "1m", W_S)
    counts = "SELECT toInt64(sum(count)) FROM tally.counts_1m WHERE counter = 'tag:usual-1'"
    assert site.rows(counts) == [(1_000_000 + 121 * 20,)]
    assert scored(site) == expected


def test_no_adjustment_is_rolled_up(site: Site) -> None:
    fill(site)
    adjust(site, "tag:usual-1", 500, "1m", W_S - HOUR_S)
    site.roll_up(1)
    rows = site.rows("SELECT toInt64(sum(p)) FROM tally.cells_1h WHERE counter = 'tag:usual-1'")
    assert rows == [(121 * 20,)]
    assert site.totals()["tag:usual-1"] == 121 * 20 + 500


@pytest.mark.parametrize("view", ["counts_1m", "counts_by_region_1h", "counts_1d", "totals"])
def test_a_counters_adjustments_are_found_by_the_primary_key(site: Site, view: str) -> None:
    site.client.command(
        "INSERT INTO tally.adjustments (build, counter, id, `by`, log_time) "
        "SELECT 1, concat('tag:', toString(number)), 'x', 1, now64(3) FROM numbers(50000)"
    )
    query = f"EXPLAIN indexes = 1 SELECT * FROM tally.{view} WHERE counter = 'tag:777'"
    plan = "\n".join(row[0] for row in site.rows(query))
    key = plan.split("ReadFromMergeTree (tally.adjustments)")[1].split("PrimaryKey")[1]
    assert "counter in ['tag:777', 'tag:777']" in key
    assert "Granules: 1/" in key


def test_values_and_ids_of_odd_counters_are_found(site: Site) -> None:
    odd = [
        "a:it's",
        "a:\\'",
        "a:100 %s %(x)s",
        "a:{x:String}",
        "a:\n\t\x01",
        "a:ü\U0001f600",
        "a:--",
    ]
    for number, counter in enumerate(odd, start=1):
        adjust(site, counter, number, "1h", W_S)
    wishes = {"by": 1, "id": "x", "grain": "1h", "window": W_S * 1000}
    drafts = [check_draft({"counter": counter, **wishes}) for counter in odd]
    reads = Reads(site.client, SystemClock())
    found = {target.counter: value for target, value in values(reads, drafts).items()}
    assert found == {counter: number for number, counter in enumerate(odd, start=1)}
    known = {(counter, "x"): (number, "eu", "1h", W_S * 1000) for counter, number in found.items()}
    assert stored(reads, drafts) == known


def test_names_beyond_one_query_are_asked_for_in_several(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(values_module, "CHUNK_BYTES", 10)
    counters = [f"a:{number}" for number in range(10)]
    for counter in counters:
        adjust(site, counter, 5, "1d", W_S - W_S % DAY_S)
    drafts = [check_draft({"counter": counter, "by": 1, "id": "x"}) for counter in counters]
    reads = Reads(site.client, SystemClock())
    assert sorted(values(reads, drafts).values()) == [5] * 10
    assert len(stored(reads, drafts)) == 10


def test_every_column_of_the_history_says_what_it_is(site: Site) -> None:
    rows = site.rows(
        "SELECT table, name FROM system.columns WHERE database = 'tally' AND comment = '' "
        "AND table IN ('history', 'adjustments')"
    )
    assert rows == []
