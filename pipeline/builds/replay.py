"""A replay from its beginning to the swap, as `tally replay` runs it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, TypeVar

from pipeline.builds.begin import Rebuilding
from pipeline.builds.live import live_build
from pipeline.builds.members import hosts_of_members
from pipeline.builds.positions import reached
from pipeline.builds.progress import ProgressMeter
from pipeline.builds.rebuilds import Rebuild, State, read_rebuilds
from pipeline.errors import OperatorError, TryAgainError
from pipeline.groupless import log_ends, log_ranges

if TYPE_CHECKING:
    from collections.abc import Callable

    from clickhouse_connect.driver import Client

    from pipeline.builds.crew import Crew
    from pipeline.builds.progress import Progress
    from pipeline.clock import Clock
    from pipeline.interrupts import Wishes
    from schemas.addresses import KafkaAddress

LOOK_S = 0.5
PATIENCE_S = 60.0

T = TypeVar("T")

OTHERS_S = 30.0
"""How long others have to begin with a build that became live, before it is said that none did."""


class Replay:
    """One build that is counted anew, on one log and one ClickHouse.

    Methods block; they raise TryAgainError when a server is away for long, and OperatorError when
    somebody must act.
    """

    def __init__(
        self, kafka: KafkaAddress, client: Client, clock: Clock, wishes: Wishes, *, replica: str
    ) -> None:
        self._kafka = kafka
        self._client = client
        self._clock = clock
        self._wishes = wishes
        self._rebuilding = Rebuilding(kafka, client, clock, replica)

    def choose(self, build: int | None, *, new: bool, by_newest_rules: bool, note: str) -> Rebuild:
        """The named build; or the one that was begun and not taken; or a new one.

        Raises OperatorError if the named one is live, or there is none of that number.
        """
        if build is not None:
            return self._known(build)
        begun = None if new or by_newest_rules else self._rebuilding.find()
        return begun or self._rebuilding.begin(note, by_newest_rules=by_newest_rules)

    def _known(self, build: int) -> Rebuild:
        if build == live_build(self._client):
            raise OperatorError(f"build {build} is live: its workers count it")
        known = read_rebuilds(self._client).get(build)
        if known is not None and known.state == State.DROPPED:
            raise OperatorError(f"build {build} was dropped; `tally builds` lists those there are")
        if known is None and not reached(self._client, build):
            raise OperatorError(f"there is no build {build}; `tally builds` lists them")
        return known or Rebuild(build)

    def carry_base(self, rebuild: Rebuild, tell: Callable[[str], None]) -> Rebuild:
        """See to it that what is older than the rebuild counts is there."""
        return self._rebuilding.carry_base(rebuild, tell)

    def catch_up(self, build: int, crew: Crew, show: Callable[[Progress], None]) -> Progress | None:
        """Until the build has what the log had a moment ago; None if somebody wants it to end."""
        meter = ProgressMeter([start for start, _ in log_ranges(self._kafka)])

        def look() -> Progress:
            at = {shard: one.through for shard, one in reached(self._client, build).items()}
            return meter.look(self._clock.monotonic_s(), log_ends(self._kafka), at)

        while not self._wishes.asked:
            crew.look()
            progress = self._patiently(look)
            show(progress)
            if progress.is_caught_up:
                return progress
            time.sleep(LOOK_S)
        return None

    def wait_for_others(self, build: int, crew: Crew, within_s: float = OTHERS_S) -> bool:
        """Until somebody else counts a build that became live; False if nobody does in time, or
        somebody wants it to end. Until then the crew counts it, also while Kafka does not tell."""
        deadline_s = self._clock.monotonic_s() + within_s
        while not self._wishes.asked and self._clock.monotonic_s() < deadline_s:
            crew.look()
            try:
                members = hosts_of_members(self._kafka, build)
            except TryAgainError:
                members = []
            if len(members) > crew.size and crew.is_steady():
                return True
            time.sleep(LOOK_S)
        return False

    def _patiently(self, ask: Callable[[], T]) -> T:
        """What is asked; a server that is away is asked again for a minute."""
        deadline_s = self._clock.monotonic_s() + PATIENCE_S
        while True:
            try:
                return ask()
            except TryAgainError:
                if self._wishes.hurried or self._clock.monotonic_s() > deadline_s:
                    raise
                time.sleep(LOOK_S)
