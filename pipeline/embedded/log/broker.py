"""All topics of the node: making, growing, changing, deleting them, and opening them at start."""

import logging
import re
import shutil
import sqlite3
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from kio.schema.errors import ErrorCode

from pipeline.clock import Clock
from pipeline.embedded.log import sidecar, topic_config
from pipeline.embedded.log.coordinator import Coordinator
from pipeline.embedded.log.flusher import Flusher
from pipeline.embedded.log.fsync import Fsync
from pipeline.embedded.log.meta import Meta, TopicRow, topic_folder
from pipeline.embedded.log.partition import Partition
from pipeline.embedded.log.topic_config import TopicConfig
from pipeline.errors import BadInputError
from pipeline.folders import sync_folder
from pipeline.metrics.definitions import log as metric
from pipeline.metrics.meter import UNMEASURED, Meter

logger = logging.getLogger(__name__)

NODE_ID = 1
PARTITIONS_MAX = 10_000
_LEGAL_NAME = re.compile(r"[a-zA-Z0-9._-]{1,249}")


class RefusedError(Exception):
    """A request about a topic that is answered with an error code of the protocol."""

    def __init__(self, code: ErrorCode, reason: str) -> None:
        super().__init__(reason)
        self.code = code
        self.reason = reason


class Topic:
    """A topic that is open. `settings` are those set by hand; `config` has the defaults too."""

    def __init__(self, row: TopicRow, folder: Path) -> None:
        self.uid = row.uid
        self.name = row.name
        self.settings = row.settings
        self.config = TopicConfig(row.settings)
        self.folder = folder
        self.partitions: list[Partition] = []


class Broker:
    """The node's state. Called by the event loop's thread; waits for the disk alone."""

    def __init__(self, folder: Path, clock: Clock, fsync: Fsync, meter: Meter = UNMEASURED) -> None:
        """Opens all partitions; blocks while torn tails are looked for."""
        self.folder = folder
        self.clock = clock
        self.meta = Meta(folder / "meta.sqlite", sync_each_commit=fsync is Fsync.ALWAYS)
        self.cluster_id = self.meta.fact("cluster_id", uuid.uuid4().hex[:22])
        self.meter = meter
        self.topics: dict[str, Topic] = {}
        self.flusher = Flusher(fsync, clock, meter, self._close_files)
        self.coordinator = Coordinator(self.meta, clock, self._uid_of)
        self.host = ""
        self.port = 0
        self.partition_count = 0
        self._deleted: set[Path] = set()
        self.fetches_waiting = 0
        meter.read(metric.REQUESTS_WAITING(waits_for="records"), lambda: self.fetches_waiting)
        meter.read(metric.TOPICS(), lambda: len(self.topics))
        meter.read(metric.PARTITIONS(), lambda: self.partition_count)
        meter.read(metric.GROUPS(), lambda: len(self.coordinator.groups))
        rows = self.meta.topics()
        self._remove_leftovers({self._folder_of(row) for row in rows})
        for row in rows:
            self._open(row)
        self._sync_folders(self.topics.values())
        # What is remembered of a producer must not be held against a new one of the same id.
        partitions = [p for topic in self.topics.values() for p in topic.partitions]
        self.meta.pass_producer_ids(met for p in partitions for met in p.producers.ids())

    def _uid_of(self, topic: str, number: int) -> int | None:
        """The number of the topic that has this partition; called by any thread."""
        found = self.topics.get(topic)
        return found.uid if found is not None and 0 <= number < len(found.partitions) else None

    def _close_files(self) -> None:
        """Give the files of all segments back; who needs one opens it again."""
        for topic in self.topics.values():
            for partition in topic.partitions:
                partition.close()

    def _folder_of(self, row: TopicRow) -> Path:
        return topic_folder(self.folder, row)

    def _remove_leftovers(self, known: set[Path]) -> None:
        for folder in (self.folder / "topics").glob("*"):
            if folder not in known:
                shutil.rmtree(folder)

    def _open(self, row: TopicRow) -> Topic:
        topic = Topic(row, self._folder_of(row))
        self._open_partitions(topic, row.partitions)
        self.topics[row.name] = topic
        return topic

    def _open_partitions(self, topic: Topic, count: int) -> None:
        starts = self.meta.starts(topic.uid)
        for number in range(len(topic.partitions), count):
            partition = Partition(
                topic.folder / str(number),
                topic.config,
                starts.get(number, 0),
                self.clock.now_ms(),
                self.flusher.closed,
            )
            self.flusher.opened(partition)
            topic.partitions.append(partition)
            self.partition_count += 1

    def _sync_folders(self, topics: Iterable[Topic]) -> None:
        """Bring the folders of all their partitions to the disk; blocks. May raise OSError.

        A file can be found after a power cut if all folders on the way to it can. That a folder was
        there before says nothing: who made it may have died, or had no file left, before it synced.
        """
        folders = [topic.folder for topic in topics]
        if folders:
            for folder in (*folders, self.folder / "topics", self.folder):
                sync_folder(folder)

    def partition(self, topic: str, number: int) -> Partition | None:
        found = self.topics.get(topic)
        if found is None or not 0 <= number < len(found.partitions):
            return None
        return found.partitions[number]

    def check_new_topic(self, name: str, partitions: int, settings: dict[str, str | None]) -> None:
        """Raises RefusedError when such a topic cannot be made."""
        if not _LEGAL_NAME.fullmatch(name) or name in {".", ".."}:
            raise RefusedError(
                ErrorCode.invalid_topic_exception,
                f"Topic name '{name}' must be 1 to 249 of a-z, A-Z, 0-9, '.', '_', '-'.",
            )
        if name in self.topics:
            raise RefusedError(ErrorCode.topic_already_exists, f"Topic '{name}' already exists.")
        self._check_count(partitions, partitions)
        self.check_settings(settings)

    def _check_count(self, partitions: int, added: int) -> None:
        if partitions < 1:
            raise RefusedError(
                ErrorCode.invalid_partitions, "Number of partitions must be larger than 0."
            )
        if self.partition_count + added > PARTITIONS_MAX:
            raise RefusedError(
                ErrorCode.invalid_partitions,
                f"This node holds {PARTITIONS_MAX} partitions at most.",
            )

    def check_settings(self, settings: dict[str, str | None]) -> None:
        """Raises RefusedError for a setting this log does not know, or an impossible value."""
        try:
            topic_config.check(settings)
        except BadInputError as error:
            raise RefusedError(ErrorCode.invalid_config, str(error)) from error

    def create_topic(self, name: str, partitions: int, settings: dict[str, str | None]) -> Topic:
        """After the return the topic survives a crash. Raises RefusedError, also when the disk is
        full; there is no such topic then.
        """
        self.check_new_topic(name, partitions, settings)
        chosen = {key: value for key, value in settings.items() if value is not None}
        with self._refused_by_disk(f"Topic '{name}' was not made"):
            count = self.partition_count
            try:
                with self.meta.adding_topic(name, partitions, chosen) as row:
                    topic = self._open(row)
                    self._sync_folders([topic])
                    return topic
            except BaseException:
                self.topics.pop(name, None)
                self.partition_count = count
                raise

    def grow_topic(self, topic: Topic, partitions: int) -> None:
        """After the return the partitions survive a crash. Raises RefusedError unless they are more
        than the topic has, and when the disk is full; the topic is then as it was.
        """
        self.check_growth(topic, partitions)
        with self._refused_by_disk(f"Topic '{topic.name}' was not grown"):
            count, before = self.partition_count, len(topic.partitions)
            try:
                with self.meta.growing_topic(topic.uid, partitions):
                    self._open_partitions(topic, partitions)
                    self._sync_folders([topic])
            except BaseException:
                del topic.partitions[before:]
                self.partition_count = count
                raise

    @contextmanager
    def _refused_by_disk(self, what: str) -> Iterator[None]:
        """Makes a RefusedError of what the disk refuses."""
        try:
            yield
        except (OSError, sqlite3.Error) as error:
            logger.warning("%s: %s", what, error)
            raise RefusedError(ErrorCode.kafka_storage_error, f"{what}: {error}.") from error

    def check_growth(self, topic: Topic, partitions: int) -> None:
        """Raises RefusedError when `grow_topic` would."""
        if partitions <= len(topic.partitions):
            raise RefusedError(
                ErrorCode.invalid_partitions,
                f"Topic currently has {len(topic.partitions)} partitions, "
                f"{partitions} would not be an increase.",
            )
        self._check_count(partitions, partitions - len(topic.partitions))

    def configure_topic(self, topic: Topic, settings: dict[str, str]) -> None:
        """Replace what was set by hand. The settings were checked."""
        self.meta.configure_topic(topic.uid, settings)
        topic.settings = settings
        topic.config = TopicConfig(settings)
        for partition in topic.partitions:
            partition.config = topic.config

    def delete_topic(self, topic: Topic) -> None:
        """After the return the topic is gone for good, with the offsets committed for it."""
        # First of all, so that no commit that is on its way finds it.
        del self.topics[topic.name]
        try:
            self.meta.remove_topic(topic.uid, topic.name)
        except sqlite3.Error:
            self.topics[topic.name] = topic
            raise
        self.partition_count -= len(topic.partitions)
        for partition in topic.partitions:
            partition.drop()
        self._deleted.add(topic.folder)
        self.remove_deleted()

    def remove_deleted(self) -> None:
        """Remove the folders of deleted topics; blocks. One that a thread is still writing to stays
        for the next call, or the next start.
        """
        for folder in list(self._deleted):
            shutil.rmtree(folder, ignore_errors=True)
            if not folder.exists():
                self._deleted.discard(folder)

    def delete_records(self, topic: Topic, number: int, offset: int) -> int:
        """Make `offset` the first readable one, if an earlier one is; the partition's start."""
        partition = topic.partitions[number]
        offset = max(offset, partition.start_offset)
        self.meta.set_start(topic.uid, number, offset)
        partition.delete_before(offset)
        return partition.start_offset

    def stop(self) -> None:
        """Sync and close everything, and leave sidecars so that the next start reads no segment."""
        self.coordinator.stop()
        self.flusher.stop()
        for topic in self.topics.values():
            for partition in topic.partitions:
                active = partition.active
                if active.size:
                    known = sidecar.sidecar_of(active, partition.producers.snapshot())
                    sidecar.save(active.sidecar_path, known)
                partition.close()
        self.meta.close()
