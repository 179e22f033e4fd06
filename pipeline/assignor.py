"""Who gets which partitions: as many of the source as there are of the changelog, and the reverse.

`tally partitions` grows the changelogs first and may be cut short before the source, and others may
grow the source alone. Faust gives out topics of different sizes apart from each other: then one
worker has a partition of the source and another one what was counted of it, and partitions that the
source does not have are waited for until the worker ends, again and again. So what only one of both
has is nobody's until the other has it, too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from faust.assignor.partition_assignor import PartitionAssignor

from pipeline.topics import INCREMENTS, is_changelog

if TYPE_CHECKING:
    from collections.abc import Collection


class EvenAssignor(PartitionAssignor):
    """Faust's, for topics of which the source and its changelogs count as equally large."""

    @classmethod
    def _get_copartitioned_groups(
        cls, topics: Collection[str], cluster: Any, subscriptions: Any
    ) -> Any:
        evened = _Evened(cluster, topics)
        return super()._get_copartitioned_groups(set(topics), evened, subscriptions)


class _Evened:
    """A cluster as Faust asks for it, whose source and changelogs have what all of them have."""

    def __init__(self, cluster: Any, names: Collection[str]) -> None:
        self._cluster = cluster
        self._even = {name for name in names if _is_counted(name)}
        sizes = [len(cluster.partitions_for_topic(name) or ()) for name in self._even]
        self._size = min((size for size in sizes if size), default=0)

    def partitions_for_topic(self, name: str) -> set[int]:
        """None of a topic that is missing, which Faust tells of."""
        found: set[int] = self._cluster.partitions_for_topic(name) or set()
        return {one for one in found if one < self._size} if name in self._even else found


def _is_counted(name: str) -> bool:
    return name == INCREMENTS or is_changelog(name)
