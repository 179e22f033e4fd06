"""Reading a partition's folder at start: finish a swap, cut a torn tail, rebuild the rest."""

import logging
import os
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from pipeline.embedded.log import sidecar
from pipeline.embedded.log.batch import HEADER_SIZE, is_intact, read_header
from pipeline.embedded.log.producers import ProducerTable, Snapshot
from pipeline.embedded.log.segment import Segment, segment_path
from pipeline.embedded.log.sidecar import sidecar_of
from pipeline.folders import sync_folder

logger = logging.getLogger(__name__)

# What a compaction or a sidecar that was not finished leaves behind.
LEFTOVERS = ("*.clean", "*.part", "*-*.meta")
READ_BYTES = 4 * 1024 * 1024
OFFSETS_MAX = 2**62
"""No log comes to an offset like that: whoever has one was damaged. The last segment ends there."""


class Opened(NamedTuple):
    """A partition's segments in order, the last one open for writing; never empty."""

    segments: list[Segment]
    unsynced: Segment | None
    """The last one, if it, or a name in its folder, may not be on the disk: who wrote it died."""
    unvouched: list[tuple[Segment, Snapshot]]
    """Closed ones whose sidecar the disk refused, with the producers as they were after each."""


def open_segments(folder: Path, producers: ProducerTable, now_ms: int) -> Opened:
    """What is in the folder; blocks while it reads.

    `producers` ends as it was after the last intact batch, or knows less: see `rebuild`. A closed
    segment that had to be read is synced afterwards, and has its sidecar, unless the disk refuses
    that. A folder that is missing is made; to sync those on the way to it is left to the caller,
    who may open many. May raise OSError.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for swap in [path for path in _files_in(folder) if path.suffix == ".swap"]:
        finish_swap(swap)
    files = _files_in(folder)
    for leftover in [p for p in files if any(p.match(pattern) for pattern in LEFTOVERS)]:
        leftover.unlink()
    segments: list[Segment] = []
    unvouched: list[tuple[Segment, Snapshot]] = []
    is_synced = True
    paths = [path for path in files if path.suffix == ".log"]
    bases = [int(path.stem) for path in paths]
    for path, base, until in zip(paths, bases, [*bases[1:], OFFSETS_MAX], strict=False):
        size = path.stat().st_size
        segment = Segment(path, base, now_ms)
        known = sidecar.load(segment.sidecar_path, size)
        if known is not None:
            segment.adopt(known)
            producers.restore(known.producers)
            if path != paths[-1]:
                segment.shelve()
        else:
            # What is there does not fit, and must not pass for one that does.
            segment.sidecar_path.unlink(missing_ok=True)
            rebuild(segment, size, producers, now_ms, until=until)
            is_synced = is_synced and not segment.size
            if path != paths[-1] and not _vouch(segment, producers):
                unvouched.append((segment, producers.snapshot()))
            # Thousands of partitions are opened at start, and few of them are used at once.
            segment.close()
        segments.append(segment)
    if _ends_behind_a_hole(segments):
        _drop_last(segments)
        producers.forget()
        return open_segments(folder, producers, now_ms)
    if not segments:
        segments.append(Segment(segment_path(folder, 0), 0, now_ms))
    return Opened(segments, None if is_synced else segments[-1], unvouched)


def _ends_behind_a_hole(segments: list[Segment]) -> bool:
    """Whether nothing is in the last segment, and the end of the one before is gone.

    After a power cut the name of a segment that had just begun may be on the disk, and what came
    right before it not. Nobody would ever read up to that log's end: its last record is always
    there otherwise, also after a compaction.
    """
    if len(segments) < 2:
        return False
    before, last = segments[-2:]
    return not last.size and before.next_offset < last.base_offset


def _drop_last(segments: list[Segment]) -> None:
    """Leave the log's end to the segment before. What is appended there next may have offsets that
    the dropped file's name would cut off, so it is gone from the disk on return.

    The segment before is to be read anew: its sidecar forgets producers, who may have gone on in
    what was lost before later records. Here none come later: their last batches are the log's.
    """
    before, last = segments[-2:]
    logger.warning(
        "%s: the log ends at offset %d; what came up to %d is lost",
        before.path,
        before.next_offset,
        last.base_offset,
    )
    for segment in segments:
        segment.close()
    before.sidecar_path.unlink(missing_ok=True)
    last.remove()
    sync_folder(last.path.parent)


def finish_swap(swap: Path) -> None:
    """Put a compacted file in the place of those it replaces. Its rename to `FIRST-LAST.swap` was
    the commit point: from there on this function can be run again and again until it has finished.

    Until it has, what it replaces may not be compacted again. May raise OSError.
    """
    folder = swap.parent
    # A power cut must not leave the deletions without the commit.
    sync_folder(folder)
    first, last = (int(part) for part in swap.stem.split("-"))
    logs = [path for path in _files_in(folder) if path.suffix == ".log"]
    put_in_place(swap, [old for old in logs if first <= int(old.stem) <= last])


def put_in_place(swap: Path, replaced: Iterable[Path]) -> None:
    """What is left of `finish_swap` when the commit is on the disk. It syncs nothing, and opens
    nothing, so that it does not fail for want of files. May raise OSError.
    """
    for old in replaced:
        old.with_suffix(".meta").unlink(missing_ok=True)
        old.unlink(missing_ok=True)
    target = segment_path(swap.parent, int(swap.stem.split("-")[0]))
    companion = swap.with_suffix(".meta")
    if companion.exists():
        companion.rename(target.with_suffix(".meta"))
    swap.rename(target)


def finish_swaps(log: Path) -> None:
    """Finish what a log that was killed left half done, in all of its partitions.

    For whoever holds its lock. Blocks; may raise OSError.
    """
    for swap in sorted(log.glob("topics/*/*/*.swap")):
        finish_swap(swap)


def _files_in(folder: Path) -> list[Path]:
    """In the order of their names. Raises OSError, where Path.glob takes some folders that it
    cannot read for empty ones: records that are there would be hidden, and written over.
    """
    return sorted(folder.iterdir())


def rebuild(
    segment: Segment, size: int, producers: ProducerTable, now_ms: int, *, until: int
) -> None:
    """Read a segment whole, check every batch, and cut the file after the last intact one.

    Checksums do not cover offsets: one that is not below `until` is damage, too. Readers would go
    on behind it, and never come to the next segment.

    Where whole batches are missing, as a compaction leaves them out, any producer may have gone on
    in them. So those met before are forgotten there: to take an older batch for the last one of a
    producer that lives would be to refuse it for good. A retry from before is not recognized then.
    """
    buffer, buffer_at, position = memoryview(b""), 0, 0
    while position < size:
        at = position - buffer_at
        if len(buffer) - at < HEADER_SIZE:
            buffer, buffer_at, at = _read(segment, position, READ_BYTES), position, 0
            if len(buffer) < HEADER_SIZE:
                break
        header = read_header(buffer, at)
        if not HEADER_SIZE <= header.size <= size - position:
            break
        if len(buffer) - at < header.size:
            buffer, buffer_at, at = (
                _read(segment, position, max(header.size, READ_BYTES)),
                position,
                0,
            )
        if not is_intact(buffer[at : at + header.size], header):
            break
        if not segment.next_offset <= header.base_offset < header.next_offset <= until:
            break
        if header.base_offset > segment.next_offset:
            producers.forget()
        segment.note(header)
        producers.store(header, header.base_offset, header.max_timestamp_ms, now_ms)
        position = segment.size
    if segment.size < size:
        logger.warning(
            "%s: cut %d bytes of a torn tail at offset %d",
            segment.path,
            size - segment.size,
            segment.next_offset,
        )
        os.ftruncate(segment.fd, segment.size)
    if segment.next_offset < until < OFFSETS_MAX:
        producers.forget()


def _vouch(segment: Segment, producers: ProducerTable) -> bool:
    """Sync a closed segment and write its sidecar: without one it would never be compacted.

    False if the disk refuses the sidecar. Raises OSError if it cannot sync.
    """
    os.fsync(segment.fd)
    try:
        sidecar.save(segment.sidecar_path, sidecar_of(segment, producers.snapshot()))
    except OSError as error:
        logger.warning("%s: %s; its sidecar is tried again", segment.path, error)
        return False
    segment.shelve()
    return True


def _read(segment: Segment, position: int, count: int) -> memoryview:
    return memoryview(os.pread(segment.fd, count, position))
