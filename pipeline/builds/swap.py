"""Takes a build that has caught up: ONE insert into `tally.builds` turns every view.

Each step may be the last, if the process dies; then the old build goes on, or the new one does.

    1  the new build is rolled up, and what trended is carried over
    2  a handover record in every partition: the old build's workers count up to it and wait
    3  wait until the new build has flushed all that the log had then, and so all the old one can
    4  that is rolled up as well, and what trended since is carried over
    5  one row into `tally.builds`, if the old build is still the live one, and in time
    6  the old workers see it and end; those that follow the live build go on with the new one
"""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from clickhouse_connect.driver.exceptions import ClickHouseError

from pipeline import topics
from pipeline.builds.base import carry
from pipeline.builds.carried import NEW_TRENDS, TRENDS
from pipeline.builds.following import HANDOVER_KEY, HANDOVER_KIND, WAIT_MS
from pipeline.builds.live import live_build
from pipeline.builds.positions import reached
from pipeline.builds.rebuilds import read_rebuilds
from pipeline.control.log_writer import LogRecord, write_records
from pipeline.errors import OperatorError, TryAgainError
from pipeline.faults import reach
from pipeline.groupless import log_ends

if TYPE_CHECKING:
    from collections.abc import Callable

    from clickhouse_connect.driver import Client

    from pipeline.clock import Clock
    from pipeline.rollup.steps import Rolled
    from schemas.addresses import KafkaAddress

PATIENCE_S = 0.8 * WAIT_MS / 1000
"""Shorter than the old workers wait at the handover."""

_POLL_S = 0.2

_SHORT_PASS_S = PATIENCE_S / 4
"""A pass of the rollup that is as short has its time while the old build's workers wait."""

_PASSES_MAX = 3
"""A first pass has weeks to catch up with; the one after it has what came meanwhile."""

_SCORED_LATE_MS = 3_600_000
"""A minute is scored soon after it is over; what was scored when the swap began is older."""

_DECLARE = (
    "INSERT INTO tally.builds (cluster, build, declaration, declared_at, note) "
    "SELECT '', {build:UInt32}, (SELECT max(declaration) FROM tally.builds WHERE cluster = '') + 1,"
    " {now:DateTime64(3)}, {note:String} "
    "WHERE (SELECT build FROM tally.live_builds WHERE cluster = '') = {old:UInt32}"
)


def swap(
    kafka: KafkaAddress,
    client: Client,
    build: int,
    clock: Clock,
    note: str,
    *,
    roll_up: Callable[[], Rolled],
) -> int:
    """Make `build` the live one; returns the one that was. `roll_up` is one pass over the new one.

    Blocks for some seconds, and for minutes if the new build was never rolled up: cached counts are
    what was. Raises TryAgainError, and the old build goes on, when the new one does not get there
    in time or a server is away; OperatorError when it is live already, or cannot be rolled up.
    """
    old = live_build(client)
    if old == build:
        raise OperatorError(f"build {build} is live already")
    rebuild = read_rebuilds(client).get(build)
    if rebuild is not None and rebuild.lacks_base:
        raise OperatorError(f"build {build} lacks earlier days: `tally replay --build {build}`")
    pass_s = _roll_up(roll_up, build)
    since_ms = clock.now_ms() - _SCORED_LATE_MS
    carry(client, old, build, 0, tables=TRENDS)
    deadline_s = clock.monotonic_s() + PATIENCE_S
    hand_over(kafka, build, clock)
    reach("swap-handed-over", 1)
    _wait(client, build, log_ends(kafka), deadline_s, clock)
    if pass_s <= _SHORT_PASS_S:
        # Where one takes longer, cached counts may be a pass behind what they were; others not.
        _check_rolled(roll_up(), build)
    carry(client, old, build, since_ms, tables=NEW_TRENDS)
    reach("swap-carried", 1)
    _check_ahead(client, old, build)
    if clock.monotonic_s() > deadline_s:
        raise TryAgainError(f"it took too long, so build {old} goes on: try again")
    declare(client, old, build, clock, note)
    reach("swap-declared", 1)
    return old


def hand_over(kafka: KafkaAddress, build: int, clock: Clock) -> None:
    """Write to every partition that `build` is about to take over. Blocks; raises TryAgainError."""
    value = json.dumps({"build": build}).encode()
    records = [
        LogRecord(topics.INCREMENTS, partition, value, HANDOVER_KEY, HANDOVER_KIND)
        for partition in range(topics.made_partitions(kafka))
    ]
    write_records(kafka, records, clock)


def declare(client: Client, old: int, build: int, clock: Clock, note: str) -> None:
    """The one insert. Raises TryAgainError when it is unknown, OperatorError when somebody else
    declared another build meanwhile."""
    now = datetime.fromtimestamp(clock.now_ms() / 1000, UTC)
    try:
        client.command(_DECLARE, {"build": build, "old": old, "now": now, "note": note})
    except (ClickHouseError, OSError) as error:
        raise TryAgainError(
            f"ClickHouse did not say whether build {build} is live now; `tally builds` tells: "
            f"{error}"
        ) from error
    live = live_build(client)
    if live != build:
        raise OperatorError(f"build {live} was made live meanwhile; `tally builds` lists them")


def _roll_up(roll_up: Callable[[], Rolled], build: int) -> float:
    """Pass over the build until there is little left to do; returns what the last one took."""
    for _ in range(_PASSES_MAX):
        rolled = roll_up()
        _check_rolled(rolled, build)
        if rolled.took_s <= _SHORT_PASS_S:
            break
    return rolled.took_s


def _check_rolled(rolled: Rolled, build: int) -> None:
    """Raise OperatorError if ClickHouse refused to roll something up."""
    if rolled.problems:
        raise OperatorError(
            f"build {build} cannot be rolled up, so the live build goes on: {rolled.problems[0]}"
        )


def _wait(client: Client, build: int, ends: list[int], deadline_s: float, clock: Clock) -> None:
    """Until the build has flushed all before `ends`."""
    while True:
        found = reached(client, build)
        behind = [
            shard
            for shard, end in enumerate(ends)
            if end and (shard not in found or found[shard].through + 1 < end)
        ]
        if not behind:
            return
        if clock.monotonic_s() > deadline_s:
            raise TryAgainError(
                f"build {build} did not get to the end of shards {behind[:5]} within "
                f"{PATIENCE_S:.0f} s, so the live build goes on; do its workers run? `tally "
                "replay --swap` runs some and tries again"
            )
        time.sleep(_POLL_S)


def _check_ahead(client: Client, old: int, build: int) -> None:
    """Raise TryAgainError unless the new build has all that the old one shows."""
    ours = reached(client, build)
    for shard, theirs in reached(client, old, with_cells=True).items():
        if shard not in ours or ours[shard].through < theirs.through:
            raise TryAgainError(f"build {old} is ahead in shard {shard}, so it goes on: try again")
