"""Keeping the last value of each key: which records stay, and the file they are written to.

Offsets never change. A tombstone stays for delete.retention.ms after the pass that first met it,
so that a consumer on its way through the log still learns of the deletion.
"""

import errno
import os
import shutil
from collections.abc import Iterator
from contextlib import closing, contextmanager
from hashlib import blake2b
from typing import NamedTuple

from aiokafka.record.default_records import DefaultRecord

from pipeline.embedded.log import sidecar
from pipeline.embedded.log.batch import BatchHeader, read_header
from pipeline.embedded.log.producers import Snapshot
from pipeline.embedded.log.records import records_of, with_records
from pipeline.embedded.log.segment import Segment
from pipeline.embedded.log.sidecar import sidecar_of
from pipeline.errors import BadInputError

KEYS_MAX = 2_000_000
KEY_BYTES_MAX = 24

LAST_KEPT_MS = 600_000
"""A tombstone whose time is over and that is the log's last record is looked at again after this,
or after delete.retention.ms if that is longer."""

Newest = dict[bytes, int]


def map_key(key: bytes) -> bytes:
    """Long keys are kept as digests, so that the map's memory is bounded by its number of keys."""
    return key if len(key) <= KEY_BYTES_MAX else blake2b(key, digest_size=32).digest()


def note_newest(newest: Newest, batch: memoryview) -> None:
    """Remember the last offset of each key in a batch; one that cannot be read is left alone."""
    try:
        found = {map_key(r.key): r.offset for r in records_of(batch) if r.key is not None}
    except BadInputError:
        return
    newest.update(found)


class Cleaned(NamedTuple):
    """What is left of a batch: nothing, the same bytes, or fewer records."""

    batch: bytes | memoryview | None
    has_tombstones: bool


def clean_batch(
    batch: memoryview,
    header: BatchHeader,
    newest: Newest,
    *,
    drop_tombstones: bool,
    log_end_offset: int,
) -> Cleaned:
    """Leave out what a later record replaces, and deletions whose time is over.

    The log's last record always stays: who reads up to the end must be able to arrive there.
    """

    def stays(record: DefaultRecord) -> bool:
        if record.key is None:
            return True
        if newest.get(map_key(record.key), -1) > record.offset:
            return False
        is_last = record.offset == log_end_offset - 1
        return is_last or not (record.value is None and drop_tombstones)

    times_ms: dict[int, int] = {}
    has_tombstones = False
    try:
        for number, record in enumerate(records_of(batch)):
            if stays(record):
                times_ms[number] = record.timestamp
                has_tombstones |= record.key is not None and record.value is None
    except BadInputError:
        return Cleaned(batch, has_tombstones=False)
    newest_ms = max(times_ms.values(), default=header.max_timestamp_ms)
    # An earlier pass of an earlier version may have left it the time of a record that is gone.
    if len(times_ms) == header.record_count and newest_ms == header.max_timestamp_ms:
        return Cleaned(batch, has_tombstones)
    if not times_ms:
        return Cleaned(None, has_tombstones)
    return Cleaned(with_records(batch, header, times_ms), has_tombstones)


class Source(NamedTuple):
    """A closed segment as the cleaning thread sees it: a file that no longer changes."""

    segment: Segment
    size: int
    cleaned: bool
    horizons_ms: dict[int, int]

    @classmethod
    def of(cls, segment: Segment) -> "Source":
        return cls(segment, segment.size, segment.cleaned, dict(segment.horizons_ms))


def batches_of(source: Source) -> Iterator[tuple[memoryview, BatchHeader]]:
    """All batches of a closed segment, through a file of its own. May raise OSError."""
    with source.segment.path.open("rb") as file:
        position = 0
        while position < source.size:
            head = file.read(12)
            size = 12 + int.from_bytes(head[8:12], "big")
            batch = memoryview(head + file.read(size - 12))
            yield batch, read_header(batch)
            position += size


def newest_offsets(dirty: list[Source]) -> tuple[Newest, list[Source]]:
    """The last offset of every key, and those segments for which the map is complete."""
    newest: Newest = {}
    covered: list[Source] = []
    for source in dirty:
        for batch, _ in batches_of(source):
            note_newest(newest, batch)
        covered.append(source)
        if len(newest) >= KEYS_MAX:
            break
    return newest, covered


def groups_of(sources: list[Source], max_bytes: int) -> list[list[Source]]:
    """Neighbours whose sizes together fit one segment are merged into one."""
    groups: list[list[Source]] = []
    room = 0
    for source in sources:
        if groups and source.size <= room:
            groups[-1].append(source)
            room -= source.size
        else:
            groups.append([source])
            room = max_bytes - source.size
    return groups


def swap_name(group: list[Source]) -> str:
    first, last = group[0].segment.base_offset, group[-1].segment.base_offset
    return f"{first:020d}-{last:020d}"


def write_clean(
    group: list[Source],
    newest: Newest,
    now_ms: int,
    keep_tombstones_ms: int,
    log_end_offset: int,
) -> Segment:
    """Write what stays of a group to FIRST-LAST.clean, with its sidecar beside it, both synced: the
    batches that are left out tell nobody of their producers any more. Their names are not.

    Blocks on the disk; may raise OSError, also where the last one's sidecar is missing, and where
    the disk has no room for the whole group: who appends needs it more. Nothing of what was written
    stays then. Nothing that readers see is changed.
    """
    last = group[-1].segment
    producers = producers_after(last)
    path = last.path.with_name(swap_name(group) + ".clean")
    if shutil.disk_usage(path.parent).free < sum(source.size for source in group):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
    result = Segment(path, group[0].segment.base_offset, last.created_ms)
    path.unlink(missing_ok=True)
    with _whole_or_gone(result):
        for source in group:
            for batch, header in batches_of(source):
                horizon_ms = source.horizons_ms.get(header.base_offset)
                due = horizon_ms is not None and horizon_ms <= now_ms
                cleaned = clean_batch(
                    batch, header, newest, drop_tombstones=due, log_end_offset=log_end_offset
                )
                if cleaned.batch is None:
                    continue
                if cleaned.has_tombstones:
                    if due:
                        # The log's last record: with its old horizon it would be due at once, and
                        # the segment would be written anew in every round.
                        horizon_ms = now_ms + max(keep_tombstones_ms, LAST_KEPT_MS)
                    elif horizon_ms is None:
                        horizon_ms = now_ms + keep_tombstones_ms
                    result.horizons_ms[header.base_offset] = horizon_ms
                result.append_copy(memoryview(cleaned.batch))
        os.fsync(result.fd)
        result.next_offset = last.next_offset
        result.cleaned = True
        sidecar.save_synced(result.sidecar_path, sidecar_of(result, producers))
    return result


@contextmanager
def _whole_or_gone(result: Segment) -> Iterator[None]:
    """Closes what is written, and removes it if that fails: what is half written on a full disk
    would keep its last room. May raise OSError.
    """
    with closing(result):
        try:
            yield
        except BaseException:
            result.remove()
            sidecar.part_path(result.sidecar_path).unlink(missing_ok=True)
            raise


def producers_after(segment: Segment) -> Snapshot:
    """The producers as they were after a closed segment. Raises OSError without a fitting sidecar.

    The segment's own batches do not tell: most producers may have written to earlier ones only.
    """
    known = sidecar.load(segment.sidecar_path, segment.size)
    if known is None:
        raise FileNotFoundError(f"{segment.sidecar_path}: no sidecar that fits")
    return known.producers
