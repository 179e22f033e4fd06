"""The ledger against the log itself: reads the log, which takes as long as it is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipeline.reconcile.log_slots import log_differences, read_log
from pipeline.reconcile.reconcile import Spanned, by_day, is_gone

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pipeline.ledger import Entry
    from pipeline.reconcile.log_places import Places
    from pipeline.reconcile.reconcile import Scope
    from pipeline.reconcile.stored import Stored
    from schemas.addresses import KafkaAddress

AGAINST_LOG = "log"


class LogReading:
    """Reads the log of a scope from a moment on, and holds the ledger against it.

    Its methods block, and raise TryAgainError when a server is away.
    """

    def __init__(self, stored: Stored, places: Places, scope: Scope, since_ms: int) -> None:
        self._stored = stored
        self._scope = scope
        self._since_ms = max(scope.since_ms, since_ms)
        self.ledger = self._ledger()
        starts = places.first_since(sorted(self.ledger), self._since_ms)
        self.ranges = {
            shard: (
                max(starts[shard], self._begin(shard)),
                max(entry.through for entry in entries.values()) + 1,
            )
            for shard, entries in self.ledger.items()
            if shard in starts and entries
        }

    def offsets(self) -> int:
        """How many offsets there are to read."""
        return sum(max(0, end - start) for start, end in self.ranges.values())

    def compare(
        self, kafka: KafkaAddress, on_progress: Callable[[int], None], checked_at_ms: int
    ) -> Spanned:
        """Read, compare, and record what came of it, day by day."""
        log = read_log(kafka, self.ranges, self._slots_ms(), on_progress)
        found = Spanned({shard: end - 1 for shard, (_, end) in self.ranges.items()})
        for shard, offsets in self.ranges.items():
            ledger, had = self.ledger[shard], log[shard]
            found.differences += log_differences(shard, ledger, had.slots, offsets, had.untold)
        self._record(found, checked_at_ms)
        return found

    def _record(self, found: Spanned, checked_at_ms: int) -> None:
        standing = self._stored.standing(AGAINST_LOG)
        results = {one: (-1, 0, "") for one in standing if is_gone(one[1], self._scope)}
        for start_ms, end_ms in self._scope.days():
            if start_ms >= self._since_ms:
                part = [one for one in found.differences if start_ms <= one.slot_ms < end_ms]
                day = Spanned(found.through, part)
                results.update(by_day(self._scope, (start_ms, end_ms), day, standing))
        self._stored.store(AGAINST_LOG, results, checked_at_ms)

    def _ledger(self) -> dict[int, dict[int, Entry]]:
        """The entries of those who count now, by shard and slot."""
        newest = self._scope.newest()
        found: dict[int, dict[int, Entry]] = {shard: {} for shard in newest}
        for span in self._scope.days():
            for key, entry in self._stored.entries(*span).items():
                if newest.get(key.shard) == key.owner:
                    found[key.shard][key.slot_ms] = entry
        return found

    def _begin(self, shard: int) -> int:
        """Where an incarnation began: what the log has before was counted by those before it."""
        if self._scope.is_first(self._scope.newest()[shard]):
            return 0
        return min(entry.first for entry in self.ledger[shard].values())

    def _slots_ms(self) -> Mapping[int, int]:
        """The slot in which the first record of each shard is, as its ledger has it."""
        return {
            shard: next(
                (
                    slot_ms
                    for slot_ms, entry in self.ledger[shard].items()
                    if entry.first <= start <= entry.through
                ),
                self._since_ms,
            )
            for shard, (start, _) in self.ranges.items()
        }
