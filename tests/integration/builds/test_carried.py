"""What is older than a new build counts is answered as before, from the moment that it is live."""

from collections.abc import Iterator

import pytest

from pipeline.builds.base import carry
from pipeline.builds.carried import CARRIED
from pipeline.builds.live import live_build
from pipeline.builds.swap import declare
from pipeline.clock import SystemClock
from pipeline.reads import frequency_sql, spans
from pipeline.reads.counts import Scope, count_many
from pipeline.reads.lifetimes import read_border
from pipeline.reads.reads import Reads
from pipeline.reads.sketched import open_since_s
from tests.integration.builds import compared_builds
from tests.integration.builds.compared_builds import (
    FRIDAY,
    LIKES,
    NOVEMBER,
    NUMBERS,
    OLD,
    SHARDS,
    Builds,
    at,
)

old = compared_builds.old

COUNTED = {"cells_1m": "slot", "frequency_1m": "slot", "adjustments": "log_time"}
FORGOTTEN = [("views", 8, 3, at(NOVEMBER, 9), "eu", at(NOVEMBER, 9), 0, 70, 0)]


@pytest.fixture(scope="module")
def forgetful(old: Builds) -> Builds:
    """Of November it has nothing finer than days."""
    old.write(OLD, {"frequency_1m": FORGOTTEN})
    # A slot that is as old is not open any more; here it is, for one pass.
    old.run(f"ALTER TABLE tally.rolled_shards DELETE WHERE build = {OLD}")
    old.roll_up(build=OLD)
    for table in ("frequency_1m", "frequency_1h"):
        old.run(f"ALTER TABLE tally.{table} DROP PARTITION ({OLD}, '{NOVEMBER}')")
    return old


@pytest.fixture
def carried(forgetful: Builds) -> Iterator[Builds]:
    """With a new build, of which there is nothing yet."""
    made = Builds(forgetful.client, next(NUMBERS))
    yield made
    if live_build(made.client) == made.new:
        declare(made.client, made.new, OLD, SystemClock(), "")


def give(builds: Builds) -> None:
    """Carry over what is older than Friday, count Friday, and make the build live."""
    moment_ms = int(at(FRIDAY).timestamp() * 1000)
    carry(builds.client, OLD, builds.new, moment_ms, tables=CARRIED)
    for table, since in COUNTED.items():
        builds.run(
            f"INSERT INTO tally.{table} SELECT * REPLACE (toUInt32({builds.new}) AS build) FROM ("
            f"SELECT * FROM tally.{table} WHERE build = {OLD} AND {since} >= '{FRIDAY}')"
        )
    builds.position(builds.new, 0, 30, at(FRIDAY, 12, 0, 50))
    builds.position(builds.new, 1, 15, at(FRIDAY, 9, 0, 30))
    declare(builds.client, OLD, builds.new, SystemClock(), "")


def totals(builds: Builds) -> dict[str, int]:
    """What people are told of all time."""
    reads = Reads(builds.client, SystemClock())
    found = count_many(reads, [LIKES, "likes:c"], Scope(), "exact", 60_000)
    return {counter: answer.total for counter, answer in found.items()}


def sketch(builds: Builds) -> dict[int, int]:
    """What the sketch of a family holds of all time, by bucket."""
    reads = Reads(builds.client, SystemClock())
    rows = reads.rows(
        frequency_sql.whole((spans.LIFE,), None),
        {"family": "views", "width": 8, "open_s": open_since_s(reads)},
    )
    return {int(bucket): int(p) for bucket, p, _ in rows}


def test_nothing_falls_when_a_build_with_older_days_becomes_live(carried: Builds) -> None:
    before = totals(carried), sketch(carried)
    assert before == ({LIKES: 32, "likes:c": 15}, {3: 179, 11: 50})

    give(carried)

    assert (totals(carried), sketch(carried)) == before
    carried.roll_up(build=carried.new)
    assert (totals(carried), sketch(carried)) == before


def test_what_is_carried_over_is_rolled_up_as_far_as_it_was_and_no_further(
    carried: Builds,
) -> None:
    give(carried)

    rolled = "SELECT shard, toUnixTimestamp64Milli(max(log_time)) FROM tally.rolled_shards "
    assert carried.rows(f"{rolled} WHERE build = {carried.new} GROUP BY shard ORDER BY shard") == [
        (0, int(at(FRIDAY).timestamp() * 1000)),
        (1, int(at(FRIDAY).timestamp() * 1000)),
    ]
    final = "SELECT DISTINCT grain, slot_day FROM tally.final_days WHERE build = {} ORDER BY ALL"
    assert carried.rows(final.format(carried.new)) == carried.rows(final.format(OLD))


def test_sketches_and_families_whose_minutes_are_gone_are_still_found(carried: Builds) -> None:
    widths = (
        "SELECT family, width, toUnixTimestamp(min(first)) FROM tally.frequency_widths "
        "WHERE build = {} GROUP BY family, width"
    )
    newest = (
        "SELECT toString(family), max(window) FROM tally.newest_windows WHERE build = {} "
        "GROUP BY family ORDER BY family"
    )
    give(carried)

    assert carried.rows(widths.format(carried.new)) == carried.rows(widths.format(OLD))
    assert carried.rows(widths.format(carried.new)) == [
        ("views", 8, int(at(NOVEMBER, 9).timestamp()))
    ]
    assert carried.rows(newest.format(carried.new)) == carried.rows(newest.format(OLD))


def test_days_without_their_minutes_are_not_overlooked_where_none_is_known_to_be_final(
    carried: Builds,
) -> None:
    before = totals(carried)
    give(carried)
    # As a Tally that did not carry it over left it.
    carried.run(f"ALTER TABLE tally.final_days DELETE WHERE build = {carried.new}")
    row = [carried.new, OLD, at(FRIDAY), 1]
    carried.client.insert(
        "tally.rebuilds", [row], column_names=["build", "base", "counts_from", "state"]
    )

    assert read_border(Reads(carried.client, SystemClock()), SHARDS) is None
    assert totals(carried) == before
