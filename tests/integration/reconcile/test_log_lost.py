"""What was counted around the loss of a log, or of its beginning, is no difference."""

import asyncio
import time
from collections.abc import Sequence

from pipeline.clock import SystemClock
from pipeline.control.going_on import Flushed, after_trim, in_other_log
from pipeline.reconcile.reconcile import Reconciler
from pipeline.reconcile.stored import Stored
from pipeline.shard import Shard
from tests.integration.reconcile.site import DAY_MS, RECORDS, SLOTS, Site


class Trimmed:
    """A log that begins at an offset; all of it is as late as anybody asks for."""

    def __init__(self, start: int) -> None:
        self._start = start

    def first_since(self, shards: Sequence[int], at_ms: int) -> dict[int, int]:  # noqa: ARG002
        return dict.fromkeys(shards, self._start)

    def first_record(self, shard: int, start: int, end: int) -> int | None:  # noqa: ARG002
        return max(start, self._start) if max(start, self._start) < end else None


def differences(site: Site, start: int) -> list[str]:
    reconciler = Reconciler(Stored(site.client, 1), Trimmed(start), 1, SystemClock())
    scope = reconciler.scope()
    return [one.text() for one in reconciler.spans(scope, scope.days()).differences]


def test_what_is_read_again_after_a_trim_is_compared_once(site: Site) -> None:
    """Flushed into the sixth slot, checkpointed in the second, trimmed in the fourth."""
    for table in ("cells_1m", "slots", "positions"):
        site.run(f"TRUNCATE TABLE tally.{table}")
    shard = Shard(0, replica="main")
    site.read(shard, RECORDS + 20)
    checkpointed = Shard(0, shard.position, shard.log_ms, replica="main")
    site.read(shard, 5 * RECORDS + 20)
    asyncio.run(site.flush([shard]))
    start = 3 * RECORDS + 10
    slots = {
        slot_ms: dict(zip(values.keys, values.through.tolist(), strict=True))
        for slot_ms, cells in shard.slots.items()
        for values in [cells.values()]
    }
    anew = after_trim(checkpointed, start, Flushed(shard.position - 1, slots))
    site.read(anew, len(SLOTS) * RECORDS)
    asyncio.run(site.flush([anew]))
    assert differences(site, start) == []
    site.run("ALTER TABLE tally.cells_1m UPDATE n = n + 1 WHERE replica = 'main~1' AND p > 0")
    assert differences(site, start) != []


def lose_the_tail(site: Site) -> None:
    """The sixth slot is lost in its midst; counting goes on with the seventh, in shard 0."""
    for table in ("cells_1m", "slots", "positions"):
        site.run(f"TRUNCATE TABLE tally.{table}")
    shard = Shard(0, replica="main")
    site.read(shard, 5 * RECORDS + 20)
    asyncio.run(site.flush([shard]))
    anew = in_other_log(shard, 6 * RECORDS)
    site.read(anew, len(SLOTS) * RECORDS)
    asyncio.run(site.flush([anew]))


def test_another_log_begins_a_ledger_of_its_own(site: Site) -> None:
    lose_the_tail(site)
    assert differences(site, 6 * RECORDS) == []
    site.run("DELETE FROM tally.slots WHERE replica = 'main~1' AND first > 400")
    assert differences(site, 6 * RECORDS) != []


def test_a_log_that_lost_its_tail_still_has_what_was_counted_before(site: Site) -> None:
    lose_the_tail(site)
    assert differences(site, 0) == []
    site.verify("--log", code=0)


def test_what_was_counted_since_is_held_against_the_log(site: Site) -> None:
    lose_the_tail(site)
    site.run("ALTER TABLE tally.slots UPDATE added = added + 1 WHERE replica = 'main~1'")
    lines = site.verify("--log").stdout.splitlines()
    assert len([line for line in lines if ", added: " in line]) == len(SLOTS) - 6
    site.run("ALTER TABLE tally.slots UPDATE added = added - 1 WHERE replica = 'main~1'")
    site.run(f"DELETE FROM tally.slots WHERE replica = 'main~1' AND first = {8 * RECORDS}")
    assert any(", first offset: " in one for one in differences(site, 0))


def test_an_incarnation_that_ended_does_not_hold_the_age_back(site: Site) -> None:
    site.run("TRUNCATE TABLE tally.positions")
    for replica, days in (("main", 60), ("main~1", 0)):
        site.run(
            "INSERT INTO tally.positions (build, replica, shard, flushed_through, log_time) "
            f"SELECT 1, '{replica}', 0, 5, now64(3) - INTERVAL {days} DAY"
        )
    scope = Reconciler(Stored(site.client, 1), Trimmed(0), 1, SystemClock()).scope()
    # Minutes are kept for seven days.
    assert scope.since_ms >= time.time_ns() // 1_000_000 - 8 * DAY_MS
