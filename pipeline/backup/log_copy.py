"""The log's part of a backup, in two halves: `pipeline.backup.taking` says why."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipeline.embedded.log.copying import (
    META,
    first_offset,
    is_compacted,
    opened,
    partition_folders,
    read_meta,
)
from pipeline.errors import TryAgainError

if TYPE_CHECKING:
    from pathlib import Path

    from pipeline.backup.archive import ArchiveWriter
    from pipeline.embedded.log.meta import TopicRow


class TopicsChangedError(Exception):
    """Topics are not what they were at the beginning, so the halves do not fit."""


class LogCopy:
    """One copy of a log. Calls block, and raise TryAgainError and OSError."""

    def __init__(self, folder: Path, archive: ArchiveWriter) -> None:
        """Reads the committed offsets: all else is taken later, so it holds what they rest on."""
        self._folder = folder
        self._archive = archive
        self._meta = read_meta(folder)
        self._starts = self._first_offsets()

    def take_compacted(self) -> None:
        """The topics that keep the last value of each key: the changelogs are among them."""
        for topic in self._meta.topics:
            if is_compacted(topic):
                self._take(topic)

    def take_the_rest(self) -> None:
        """All other topics, then what the log has in its database.

        Raises TopicsChangedError when one was made, grown or deleted since the beginning, and
        TryAgainError when retention took records that a group has not read.
        """
        for topic in self._meta.topics:
            if not is_compacted(topic):
                self._take(topic)
        now = read_meta(self._folder)
        if shapes(now.topics) != shapes(self._meta.topics):
            raise TopicsChangedError("topics were made, grown or deleted meanwhile")
        self._check_starts()
        database = self._meta.with_producer_id(now.producer_id)
        self._archive.add_bytes(self._path(self._folder / META), database)

    def _take(self, topic: TopicRow) -> None:
        for partition in partition_folders(self._folder, topic):
            try:
                with opened(partition) as files:
                    for path, descriptor, size in files:
                        self._archive.add_open(self._path(path), descriptor, size)
            except TryAgainError:
                if shapes(read_meta(self._folder).topics) != shapes(self._meta.topics):
                    raise TopicsChangedError(
                        "topics were made, grown or deleted meanwhile"
                    ) from None
                raise

    def _path(self, path: Path) -> str:
        return path.relative_to(self._folder.parent).as_posix()

    def _first_offsets(self) -> dict[tuple[str, int], int]:
        return {
            (topic.name, number): first_offset(partition)
            for topic in self._meta.topics
            if not is_compacted(topic)
            for number, partition in enumerate(partition_folders(self._folder, topic))
        }

    def _check_starts(self) -> None:
        """What a group reads next, and could have read at the beginning, must be in the copy."""
        now = self._first_offsets()
        for group, committed in self._meta.offsets:
            place = (committed.topic, committed.partition)
            if place in now and self._starts[place] <= committed.offset < now[place]:
                raise TryAgainError(
                    f"retention deleted records of {place[0]}, partition {place[1]}, before the "
                    f"group {group} read them and before they were copied: try again"
                )


def shapes(topics: tuple[TopicRow, ...]) -> set[tuple[int, str, int]]:
    """What of topics must not change meanwhile."""
    return {(topic.uid, topic.name, topic.partitions) for topic in topics}
