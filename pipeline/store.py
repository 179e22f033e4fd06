"""The cell table's store: what Faust reads of the changelog, per partition.

Faust decides who owns which partition and reads the changelog; this store gathers what was read and
hands it on, once the whole changelog was seen, to be made into shards.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, cast

from faust.stores import STORES
from faust.stores.base import Store

from pipeline.errors import TallyError, TryAgainError
from pipeline.recovery import RecoveredShard

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from faust.types import TP, EventT

    from pipeline.fetches import Fetch

SCHEME = "tally-cells"
"""The scheme of a store URL that asks for this store."""


class TakeOver(Protocol):
    """Makes shards of what the changelog held. Waits for Kafka; what it raises ends the worker."""

    async def __call__(self, recovered: list[RecoveredShard]) -> None: ...


class CellStore(Store[Any, Any]):
    """Changelogs by partition. After every rebalance all of them are read anew: memory is never
    kept, because a partition that was away for a moment may have had another owner.

    `progress` grows as long as recovery goes on.
    """

    def __post_init__(self) -> None:
        self.generation = 0
        self.progress = 0
        self.take_over: TakeOver | None = None
        self._recovered: dict[int, RecoveredShard] = {}
        self._broken: TallyError | None = None

    def persisted_offset(self, tp: TP) -> int:  # noqa: ARG002 - Faust's signature
        """Nothing is persisted here: -1 makes Faust read the changelog from its start each time."""
        return -1

    async def on_rebalance(
        self,
        assigned: set[TP],  # noqa: ARG002 - Faust's signature
        revoked: set[TP],  # noqa: ARG002
        newly_assigned: set[TP],  # noqa: ARG002
        generation_id: int = 0,
    ) -> None:
        """Forget what was gathered; recovery reads it anew."""
        self.progress += 1
        self._recovered.clear()
        self._broken = None
        self.generation = generation_id

    def apply_changelog_batch(
        self,
        batch: Iterable[EventT[Any]],
        to_key: Callable[[Any], Any],  # noqa: ARG002 - keys are decoded in recovery
        to_value: Callable[[Any], Any],  # noqa: ARG002
    ) -> None:
        """Gather changelog records. Never raises: Faust would log it and go on without them."""
        self.progress += 1
        for event in batch:
            fetch = cast("Fetch", event.message.value)
            partition = event.message.partition
            recovered = self._recovered.setdefault(partition, RecoveredShard(partition))
            try:
                recovered.add(fetch.start, fetch.next_offset, fetch.records)
            except TallyError as error:
                self._broken = error

    async def on_recovery_completed(self, active_tps: set[TP], standby_tps: set[TP]) -> None:  # noqa: ARG002 - no standbys
        """Hand over what was recovered. An error crashes the app: Faust would swallow it."""
        partitions = sorted(tp.partition for tp in active_tps)
        recovered = [self._recovered.pop(p, RecoveredShard(p)) for p in partitions]
        try:
            if self._broken is not None:
                raise self._broken
            if self.take_over is None:
                raise TryAgainError("the store was used before the worker was complete")
            await self.take_over(recovered)
        except Exception as error:  # counting must not go on, whatever it is
            await self.app.crash(error)

    def reset_state(self) -> None:
        """Nothing is kept outside of memory, here and in the next two."""

    async def backup_partition(self, *_args: Any, **_kwargs: Any) -> None:
        """The changelog is the backup."""

    def restore_backup(self, *_args: Any, **_kwargs: Any) -> None:
        """Recovery reads the changelog."""


STORES.aliases[SCHEME] = f"{__name__}:CellStore"
