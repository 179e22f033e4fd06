import asyncio
import errno
import os
import shutil
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pipeline.embedded.log import recovery
from pipeline.embedded.log.cleaner import Cleaner
from pipeline.embedded.log.compaction import LAST_KEPT_MS, Source, groups_of
from pipeline.embedded.log.partition import Partition
from pipeline.embedded.log.topic_config import TopicConfig
from tests.unit.embedded_log.batches import make_batch
from tests.unit.embedded_log.test_compaction import content
from tests.unit.embedded_log.test_partition import open_partition, read_all

START_MS = 1_000_000


class HandClock:
    """Stands still until it is moved."""

    def __init__(self) -> None:
        self.ms = START_MS

    def now_ms(self) -> int:
        return self.ms

    def monotonic_s(self) -> float:
        return self.ms / 1000


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


@pytest.fixture
def cleaner(clock: HandClock) -> Iterator[Cleaner]:
    made = Cleaner(clock)
    yield made
    made.stop()


def write(partition: Partition, key: bytes, value: bytes | None, time_ms: int = START_MS) -> None:
    partition.append(make_batch([(key, value)], timestamps_ms=[time_ms]), time_ms)


def unfinished_in(folder: Path) -> list[Path]:
    return [*folder.glob("*.clean"), *folder.glob("*.swap"), *folder.glob("*-*.meta")]


def segments_in(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.log"))


async def test_a_pass_leaves_the_last_values_and_nothing_to_do(
    tmp_path: Path, cleaner: Cleaner
) -> None:
    partition = open_partition(tmp_path, cleanup_policy="compact", segment_bytes="300")
    for number in range(20):
        write(partition, b"k%d" % (number % 2), b"%d" % number)
    partition.roll(START_MS)
    assert cleaner.is_due(partition)
    await cleaner.clean(partition)
    assert [offset for offset, _, _ in content(partition)] == [18, 19]
    assert not cleaner.is_due(partition)
    partition.close()


async def test_what_is_mostly_clean_is_left_alone(tmp_path: Path, cleaner: Cleaner) -> None:
    partition = open_partition(tmp_path, cleanup_policy="compact")
    for number in range(9):
        write(partition, b"k%d" % number, b"value")
    partition.roll(START_MS)
    await cleaner.clean(partition)
    write(partition, b"k0", b"value")
    partition.roll(START_MS)
    assert not cleaner.is_due(partition)
    partition.close()


async def test_records_younger_than_the_lag_are_not_touched(
    tmp_path: Path, cleaner: Cleaner, clock: HandClock
) -> None:
    partition = open_partition(tmp_path, cleanup_policy="compact", min_compaction_lag_ms="5000")
    write(partition, b"k", b"1")
    write(partition, b"k", b"2")
    partition.roll(START_MS)
    assert not cleaner.is_due(partition)
    clock.ms += 5000
    assert cleaner.is_due(partition)
    await cleaner.clean(partition)
    assert content(partition) == [(1, b"k", b"2")]
    partition.close()


async def test_tombstones_are_taken_up_again_when_their_time_is_over(
    tmp_path: Path, cleaner: Cleaner, clock: HandClock
) -> None:
    partition = open_partition(tmp_path, cleanup_policy="compact", delete_retention_ms="100")
    write(partition, b"gone", None)
    write(partition, b"here", b"1")
    partition.roll(START_MS)
    await cleaner.clean(partition)
    assert not cleaner.is_due(partition)
    clock.ms += 100
    assert cleaner.is_due(partition)
    await cleaner.clean(partition)
    assert content(partition) == [(1, b"here", b"1")]
    assert not cleaner.is_due(partition)
    partition.close()


async def test_a_tombstone_is_not_dropped_before_the_value_it_deletes(
    tmp_path: Path, cleaner: Cleaner, clock: HandClock
) -> None:
    """The segment of the value has forgotten that it was cleaned, as after a lost sidecar."""
    partition = open_partition(
        tmp_path, cleanup_policy="compact", delete_retention_ms="100", segment_bytes="150"
    )
    write(partition, b"gone", b"old")
    partition.roll(START_MS)
    write(partition, b"gone", None)
    partition.roll(START_MS)
    write(partition, b"last", b"1")
    partition.segments[1].cleaned = True
    partition.segments[1].horizons_ms = {1: START_MS}
    clock.ms += 100
    await cleaner.clean(partition)
    assert (0, b"gone", b"old") not in content(partition)
    partition.close()


async def test_segments_deleted_during_a_pass_stay_deleted(
    tmp_path: Path, cleaner: Cleaner, monkeypatch: pytest.MonkeyPatch
) -> None:
    partition = open_partition(tmp_path, cleanup_policy="compact,delete")
    for number in range(4):
        write(partition, b"k%d" % number, b"value")
    partition.roll(START_MS)
    held = partition.holds

    def delete_first(segments: list[object]) -> bool:
        partition.delete_before(4)
        return held(segments)  # type: ignore[arg-type]  # what `holds` itself is given

    monkeypatch.setattr(partition, "holds", delete_first)
    await cleaner.clean(partition)
    assert content(partition) == []
    assert unfinished_in(tmp_path) == []
    partition.close()


async def test_a_tombstone_outlives_a_value_that_a_pass_had_to_leave(
    tmp_path: Path, cleaner: Cleaner, clock: HandClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the value is back when the tombstone's time is over: nothing tells of it any more."""
    partition = open_partition(
        tmp_path, cleanup_policy="compact,delete", delete_retention_ms="100", segment_bytes="180"
    )
    for key, value in ((b"first", b"1"), (b"gone", b"old")):
        write(partition, key, value)
        partition.roll(START_MS)
        partition.segments[-2].cleaned = True
    write(partition, b"gone", None)
    write(partition, b"here", b"1")
    partition.roll(START_MS)
    write(partition, b"last", b"1")
    sources = [Source.of(segment) for segment in partition.segments[:-1]]
    assert [len(group) for group in groups_of(sources, 180)] == [2, 1]
    held = partition.holds

    def delete_first(segments: list[object]) -> bool:
        partition.delete_before(1)
        return held(segments)  # type: ignore[arg-type]  # what `holds` itself is given

    with monkeypatch.context() as patched:
        patched.setattr(partition, "holds", delete_first)
        await cleaner.clean(partition)
    assert (1, b"gone", b"old") in content(partition), "it could not be replaced"
    for _ in range(3):
        await cleaner.clean(partition)
        found = content(partition)
        assert (2, b"gone", None) in found or (1, b"gone", b"old") not in found
        clock.ms += 100
    assert [offset for offset, _, _ in content(partition)] == [3, 4]
    partition.close()


@pytest.mark.parametrize("retention_ms", ["100", "0"])
async def test_a_tombstone_at_the_end_of_the_log_does_not_keep_the_cleaner_busy(
    tmp_path: Path, cleaner: Cleaner, clock: HandClock, retention_ms: str
) -> None:
    partition = open_partition(tmp_path, cleanup_policy="compact", delete_retention_ms=retention_ms)
    write(partition, b"here", b"1")
    write(partition, b"gone", None)
    partition.roll(START_MS)
    await cleaner.clean(partition)
    clock.ms += 100
    assert cleaner.is_due(partition)
    await cleaner.clean(partition)
    assert (1, b"gone", None) in content(partition)
    assert not cleaner.is_due(partition)
    # It goes when it is no longer the last one and its time is over once more.
    write(partition, b"last", b"1", START_MS)
    clock.ms += max(int(retention_ms), LAST_KEPT_MS)
    assert cleaner.is_due(partition)
    await cleaner.clean(partition)
    assert (1, b"gone", None) not in content(partition)
    assert not cleaner.is_due(partition)
    partition.close()


async def test_records_without_key_and_value_are_no_tombstones(
    tmp_path: Path, cleaner: Cleaner, clock: HandClock
) -> None:
    """They were written before the topic was compacted, and stay."""
    partition = open_partition(tmp_path)
    partition.append(make_batch([(None, None), (b"k", b"1")]), START_MS)
    partition.roll(START_MS)
    partition.config = TopicConfig({"cleanup.policy": "compact", "delete.retention.ms": "100"})
    await cleaner.clean(partition)
    clock.ms += 100
    assert not cleaner.is_due(partition)
    partition.close()


async def test_a_segment_waits_for_its_sidecar(tmp_path: Path, cleaner: Cleaner) -> None:
    """Who has written to earlier segments is known from the sidecar alone."""
    partition = open_partition(tmp_path, cleanup_policy="compact")
    first = make_batch([(b"k", b"1")], producer_id=7, epoch=0, sequence=0)
    partition.append(first, START_MS)
    partition.roll(START_MS)
    partition.append(make_batch([(b"k", b"2")], producer_id=8, epoch=0, sequence=0), START_MS)
    partition.roll(START_MS)
    partition.append(make_batch([(b"k", b"3")], producer_id=9, epoch=0, sequence=0), START_MS)
    late = partition.segments[1].sidecar_path
    vouching = late.read_bytes()
    late.unlink()
    await cleaner.clean(partition)
    assert [offset for offset, _, _ in content(partition)] == [0, 1, 2]
    assert not cleaner.is_due(partition)
    late.write_bytes(vouching)
    assert cleaner.is_due(partition)
    await cleaner.clean(partition)
    assert [offset for offset, _, _ in content(partition)] == [1, 2]
    partition.close()
    again = open_partition(tmp_path, cleanup_policy="compact")
    retry = make_batch([(b"k", b"1")], producer_id=7, epoch=0, sequence=0)
    assert again.append(retry, START_MS).base_offset == 0
    assert again.end_offset == 3
    again.close()


async def test_a_tombstone_stays_while_a_value_before_it_cannot_be_compacted(
    tmp_path: Path, cleaner: Cleaner, clock: HandClock
) -> None:
    partition = open_partition(tmp_path, cleanup_policy="compact", delete_retention_ms="100")
    write(partition, b"gone", b"old")
    partition.roll(START_MS)
    partition.segments[0].sidecar_path.unlink()
    write(partition, b"gone", None)
    partition.roll(START_MS)
    write(partition, b"last", b"1")
    partition.segments[1].cleaned = True
    partition.segments[1].horizons_ms = {1: START_MS}
    clock.ms += 100
    assert not cleaner.is_due(partition)
    await cleaner.clean(partition)
    assert (1, b"gone", None) in content(partition)
    partition.close()


class ExitedError(Exception):
    """Stands where the process would end."""


def is_folder(fd: int) -> bool:
    return Path(f"/proc/self/fd/{fd}").readlink().is_dir()


@pytest.mark.parametrize("refused", ["sync", "deletion"])
async def test_a_swap_that_cannot_be_finished_ends_the_log_and_the_next_start_finishes_it(
    tmp_path: Path, cleaner: Cleaner, monkeypatch: pytest.MonkeyPatch, refused: str
) -> None:
    """It would be put over what a later pass made of the same segments and more."""
    partition = open_partition(tmp_path, cleanup_policy="compact", segment_bytes="300")
    for number in range(20):
        write(partition, b"k%d" % (number % 2), b"%d" % number)
    partition.roll(START_MS)
    fsync, unlink = os.fsync, Path.unlink

    def bad_fsync(fd: int) -> None:
        if is_folder(fd):
            raise OSError(errno.EIO, "Input/output error")
        fsync(fd)

    def bad_unlink(path: Path, *, missing_ok: bool = False) -> None:
        if path.suffix == ".log":
            raise OSError(errno.EIO, "Input/output error")
        unlink(path, missing_ok=missing_ok)

    def exit_now(code: int) -> None:
        raise ExitedError(code)

    with monkeypatch.context() as patched:
        if refused == "sync":
            patched.setattr(os, "fsync", bad_fsync)
        else:
            patched.setattr(Path, "unlink", bad_unlink)
        patched.setattr(os, "_exit", exit_now)
        with pytest.raises(ExitedError, match="1"):
            await cleaner.clean(partition)
    assert [path.suffix for path in unfinished_in(tmp_path)] == [".swap", ".meta"]
    again = open_partition(tmp_path, cleanup_policy="compact", segment_bytes="300")
    assert not unfinished_in(tmp_path)
    await cleaner.clean(again)
    assert [offset for offset, _, _ in content(again)] == [18, 19]
    again.close()


async def test_a_pass_that_has_no_file_left_for_its_commit_is_put_off(
    tmp_path: Path, cleaner: Cleaner, monkeypatch: pytest.MonkeyPatch
) -> None:
    partition = open_partition(tmp_path, cleanup_policy="compact")
    for number in range(4):
        write(partition, b"k", b"%d" % number)
    partition.roll(START_MS)
    real = os.open

    def no_files(path: str | Path, flags: int, mode: int = 0o777) -> int:
        if path == tmp_path:
            raise OSError(errno.EMFILE, "Too many open files")
        return real(path, flags, mode)

    with monkeypatch.context() as patched:
        patched.setattr(os, "open", no_files)
        patched.setattr(os, "_exit", lambda _: pytest.fail("the log ended"))
        await cleaner.clean(partition)
    assert len(content(partition)) == 4
    assert not unfinished_in(tmp_path)
    await cleaner.clean(partition)
    assert content(partition) == [(3, b"k", b"3")]
    partition.close()


async def test_a_commit_is_synced_in_the_thread_before_what_it_replaces_goes(
    tmp_path: Path, cleaner: Cleaner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody is answered while the event loop waits for a disk."""
    partition = open_partition(tmp_path, cleanup_policy="compact")
    for number in range(4):
        write(partition, b"k", b"%d" % number)
        partition.roll(START_MS)
    old = [segment.path for segment in partition.segments[:-1]]
    commits: list[tuple[int, bool]] = []
    threads: set[threading.Thread] = set()
    real = os.fsync

    def fsync(fd: int) -> None:
        threads.add(threading.current_thread())
        if is_folder(fd):
            commits.append((len(list(tmp_path.glob("*.swap"))), all(path.exists() for path in old)))
        real(fd)

    monkeypatch.setattr(os, "fsync", fsync)
    await cleaner.clean(partition)
    assert commits == [(1, True)]
    assert threading.current_thread() not in threads
    assert content(partition) == [(3, b"k", b"3")]
    partition.close()


async def test_a_compactions_sidecar_is_on_the_disk_before_what_it_stands_for_goes(
    tmp_path: Path, cleaner: Cleaner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The batches that are gone tell nobody of their producers any more."""
    partition = open_partition(tmp_path, cleanup_policy="compact")
    for number in range(4):
        write(partition, b"k", b"%d" % number)
        partition.roll(START_MS)
    synced: set[int] = set()
    at_commit: list[set[int]] = []
    wanted: list[set[int]] = []
    real = os.fsync

    def fsync(fd: int) -> None:
        assert threading.current_thread() is not threading.main_thread()
        if is_folder(fd):
            at_commit.append(set(synced))
            wanted.append({path.stat().st_ino for path in unfinished_in(tmp_path)})
        real(fd)
        synced.add(os.fstat(fd).st_ino)

    monkeypatch.setattr(os, "fsync", fsync)
    await cleaner.clean(partition)
    assert [len(one) for one in wanted] == [2], "a segment and its sidecar"
    assert wanted[0] <= at_commit[0]
    partition.close()


def meanwhile(monkeypatch: pytest.MonkeyPatch, act: Callable[[], None]) -> None:
    """Have the event loop do something while the next commit is on its way to the disk."""
    loop, real = asyncio.get_running_loop(), os.fsync
    loops_thread = threading.current_thread()

    async def acted() -> None:
        act()

    def fsync(fd: int) -> None:
        real(fd)
        if is_folder(fd):
            assert threading.current_thread() is not loops_thread, "it could do nothing meanwhile"
            monkeypatch.setattr(os, "fsync", real)
            asyncio.run_coroutine_threadsafe(acted(), loop).result(10)

    monkeypatch.setattr(os, "fsync", fsync)


@pytest.mark.parametrize("start", [1, 2, 3, 4])
async def test_records_deleted_while_a_commit_is_synced_stay_deleted_and_no_others_go(
    tmp_path: Path, cleaner: Cleaner, monkeypatch: pytest.MonkeyPatch, start: int
) -> None:
    partition = open_partition(tmp_path, cleanup_policy="compact")
    for number in range(3):
        write(partition, b"k%d" % number, b"value")
        partition.roll(START_MS)
    write(partition, b"last", b"value")
    meanwhile(monkeypatch, lambda: partition.delete_before(start))
    await cleaner.clean(partition)
    assert not unfinished_in(tmp_path)
    assert (partition.start_offset, partition.end_offset) == (start, 4)
    assert read_all(partition, start) == list(range(start, 4))
    assert segments_in(tmp_path) == [segment.path for segment in partition.segments]
    partition.close()
    again = open_partition(tmp_path, start, cleanup_policy="compact")
    assert read_all(again, start) == list(range(start, 4))
    await cleaner.clean(again)
    assert read_all(again, start) == list(range(start, 4))
    again.close()


async def test_a_topic_deleted_while_a_commit_is_synced_does_not_end_the_log(
    tmp_path: Path, cleaner: Cleaner, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "0"
    partition = open_partition(folder, cleanup_policy="compact")
    write(partition, b"k", b"1")
    partition.roll(START_MS)

    def delete() -> None:
        partition.drop()
        shutil.rmtree(folder)

    monkeypatch.setattr(os, "_exit", lambda _: pytest.fail("the log ended"))
    meanwhile(monkeypatch, delete)
    await cleaner.clean(partition)
    assert not folder.exists()


async def test_a_commit_that_is_synced_while_the_log_stops_is_finished_by_the_next_start(
    tmp_path: Path, clock: HandClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    cleaner = Cleaner(clock)
    partition = open_partition(tmp_path, cleanup_policy="compact")
    for number in range(4):
        write(partition, b"k", b"%d" % number)
        partition.roll(START_MS)
    write(partition, b"other", b"4")
    cleaning = asyncio.create_task(cleaner.clean(partition))

    def stop() -> None:
        cleaning.cancel()

    meanwhile(monkeypatch, stop)
    await asyncio.wait([cleaning])
    assert cleaning.cancelled()
    cleaner.stop()
    partition.close()
    assert [path.suffix for path in unfinished_in(tmp_path)] == [".swap", ".meta"]
    again = open_partition(tmp_path, cleanup_policy="compact")
    assert not unfinished_in(tmp_path)
    assert content(again) == [(3, b"k", b"3"), (4, b"other", b"4")]
    again.close()


def test_a_backup_of_a_log_that_was_killed_finishes_its_swaps(tmp_path: Path) -> None:
    folder = tmp_path / "topics" / "uid-changelog" / "3"
    folder.mkdir(parents=True)
    names = [f"{number:020}" for number in (0, 7, 9)]
    for name in names:
        (folder / f"{name}.log").write_bytes(b"old")
    (folder / f"{names[0]}-{names[1]}.swap").write_bytes(b"compacted")
    recovery.finish_swaps(tmp_path)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == {
        f"{names[0]}.log": b"compacted",
        f"{names[2]}.log": b"old",
    }
