import asyncio
import errno
import os
import shutil
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from kio.schema.errors import ErrorCode

from pipeline.embedded.log import broker as broker_module
from pipeline.embedded.log.broker import Broker, RefusedError
from pipeline.embedded.log.fsync import Fsync
from pipeline.embedded.log.meta import CommittedOffset
from tests.unit.embedded_log.batches import make_values
from tests.unit.embedded_log.test_cleaner import HandClock


def open_broker(folder: Path) -> Broker:
    return Broker(folder, HandClock(), Fsync.SECOND)


def refusal(error: pytest.ExceptionInfo[RefusedError]) -> ErrorCode:
    return error.value.code


def test_topics_and_records_survive_a_restart(tmp_path: Path) -> None:
    broker = open_broker(tmp_path)
    topic = broker.create_topic("t", 2, {"retention.ms": "77"})
    topic.partitions[1].append(make_values(3), 5)
    broker.grow_topic(topic, 3)
    broker.configure_topic(topic, {"segment.bytes": "999"})
    broker.delete_records(topic, 1, 2)
    broker.stop()
    again = open_broker(tmp_path)
    partitions = again.topics["t"].partitions
    assert [p.end_offset for p in partitions] == [0, 3, 0]
    assert partitions[1].start_offset == 2
    assert partitions[0].config.segment_bytes == 999
    assert again.cluster_id == broker.cluster_id
    again.stop()


def test_a_topic_made_again_is_empty(tmp_path: Path) -> None:
    broker = open_broker(tmp_path)
    topic = broker.create_topic("t", 1, {})
    topic.partitions[0].append(make_values(3), 5)
    broker.meta.commit_offsets("g", [CommittedOffset("t", 0, 3, 0, None)])
    broker.delete_topic(topic)
    assert broker.create_topic("t", 1, {}).partitions[0].end_offset == 0
    assert broker.meta.offsets("g") == {}
    broker.stop()


def test_folders_of_topics_whose_deletion_was_cut_short_are_removed(tmp_path: Path) -> None:
    broker = open_broker(tmp_path)
    topic = broker.create_topic("t", 1, {})
    topic.partitions[0].append(make_values(3), 5)
    broker.meta.remove_topic(topic.uid, "t")
    broker.stop()
    again = open_broker(tmp_path)
    assert not list((tmp_path / "topics").iterdir())
    again.stop()


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "a b", "ü", "x" * 250])
def test_a_name_that_is_no_topic_name_is_refused(tmp_path: Path, name: str) -> None:
    broker = open_broker(tmp_path)
    with pytest.raises(RefusedError) as caught:
        broker.create_topic(name, 1, {})
    assert refusal(caught) is ErrorCode.invalid_topic_exception
    broker.stop()


def test_the_longest_name_gets_a_folder(tmp_path: Path) -> None:
    broker = open_broker(tmp_path)
    broker.create_topic("x" * 249, 1, {}).partitions[0].append(make_values(1), 5)
    broker.stop()


def test_what_cannot_be_made_is_refused_by_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(broker_module, "PARTITIONS_MAX", 5)
    broker = open_broker(tmp_path)
    topic = broker.create_topic("t", 3, {})
    with pytest.raises(RefusedError) as caught:
        broker.create_topic("t", 1, {})
    assert refusal(caught) is ErrorCode.topic_already_exists
    for partitions in (0, 3):
        with pytest.raises(RefusedError) as caught:
            broker.create_topic("u", partitions, {})
        assert refusal(caught) is ErrorCode.invalid_partitions
    for partitions in (3, 6):
        with pytest.raises(RefusedError) as caught:
            broker.grow_topic(topic, partitions)
        assert refusal(caught) is ErrorCode.invalid_partitions
    with pytest.raises(RefusedError) as caught:
        broker.create_topic("u", 1, {"retention.ms": "never"})
    assert refusal(caught) is ErrorCode.invalid_config
    broker.stop()


def test_a_producer_id_in_the_log_is_not_given_again_when_its_reservation_was_lost(
    tmp_path: Path,
) -> None:
    broker = open_broker(tmp_path)
    partition = broker.create_topic("t", 1, {}).partitions[0]
    old = broker.meta.next_producer_id()
    partition.append(make_values(1, producer_id=old, epoch=0, sequence=0), 5)
    broker.meta._db.execute("UPDATE facts SET value = '1000' WHERE name = 'producer_id'")
    broker.stop()
    again = open_broker(tmp_path)
    partition = again.topics["t"].partitions[0]
    new = again.meta.next_producer_id()
    partition.append(make_values(1, producer_id=new, epoch=0, sequence=0), 5)
    assert partition.end_offset == 2
    again.stop()


def test_records_once_deleted_stay_deleted_whatever_is_asked_later(tmp_path: Path) -> None:
    broker = open_broker(tmp_path)
    topic = broker.create_topic("t", 1, {})
    topic.partitions[0].append(make_values(10), 5)
    assert [broker.delete_records(topic, 0, offset) for offset in (8, 3)] == [8, 8]
    broker.stop()
    again = open_broker(tmp_path)
    assert again.topics["t"].partitions[0].start_offset == 8
    again.stop()


def test_a_topic_whose_folders_cannot_be_made_can_be_made_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = open_broker(tmp_path)
    grown = broker.create_topic("grown", 1, {})
    real = Path.mkdir

    def full(folder: Path, mode: int = 0o777, **how: bool) -> None:
        if folder.name == "1":
            raise OSError(errno.ENOSPC, "No space left on device")
        real(folder, mode, **how)

    with monkeypatch.context() as patched:
        patched.setattr(Path, "mkdir", full)
        with pytest.raises(RefusedError, match="No space left") as caught:
            broker.create_topic("t", 2, {})
        assert refusal(caught) is ErrorCode.kafka_storage_error
        with pytest.raises(RefusedError) as caught:
            broker.grow_topic(grown, 3)
        assert refusal(caught) is ErrorCode.kafka_storage_error
    assert (list(broker.topics), broker.partition_count) == (["grown"], 1)
    broker.create_topic("t", 2, {})
    broker.grow_topic(grown, 3)
    assert broker.partition_count == 5
    broker.stop()
    again = open_broker(tmp_path)
    counts = {name: len(topic.partitions) for name, topic in again.topics.items()}
    assert counts == {"grown": 3, "t": 2}
    again.stop()


def kill(broker: Broker) -> None:
    """Nothing is synced, and no sidecar is left."""
    broker.coordinator.stop()
    broker._close_files()
    broker.meta.close()


@pytest.mark.parametrize("is_rolled", [False, True])
def test_what_was_acknowledged_before_a_kill_is_synced_before_the_next_log_vouches_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_rolled: bool
) -> None:
    """Who wrote it died within the second after which it would have been."""
    broker = open_broker(tmp_path)
    partition = broker.create_topic("t", 1, {}).partitions[0]
    partition.append(make_values(3), 5)
    written = partition.active
    if is_rolled:
        monkeypatch.setattr(partition, "_on_closed", lambda *_: None)
        partition.roll(5)
    kill(broker)
    synced: dict[Path, bool] = {}

    def noting(real: Callable[[int], None]) -> Callable[[int], None]:
        def sync(fd: int) -> None:
            synced[Path(f"/proc/self/fd/{fd}").readlink()] = written.sidecar_path.exists()
            real(fd)

        return sync

    monkeypatch.setattr(os, "fdatasync", noting(os.fdatasync))
    monkeypatch.setattr(os, "fsync", noting(os.fsync))
    open_broker(tmp_path).stop()
    assert written.sidecar_path.exists()
    assert synced[written.path] is False
    assert partition.folder in synced
    # What is vouched for is synced no more.
    synced.clear()
    open_broker(tmp_path).stop()
    assert not {written.path, partition.folder} & set(synced)


def syncs_of_folders(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Which folders were synced, from now on."""
    folders: list[Path] = []
    real = os.fsync

    def fsync(fd: int) -> None:
        folders.append(Path(f"/proc/self/fd/{fd}").readlink())
        real(fd)

    monkeypatch.setattr(os, "fsync", fsync)
    return folders


def test_the_folders_of_a_topic_are_synced_once_however_many_partitions_it_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The event loop waits for each of these syncs, and nobody is answered meanwhile."""
    broker = open_broker(tmp_path)
    synced = syncs_of_folders(monkeypatch)
    topic = broker.create_topic("t", 50, {})
    way = [topic.folder, tmp_path / "topics", tmp_path]
    assert synced == way
    synced.clear()
    broker.grow_topic(topic, 100)
    assert synced == way
    broker.stop()


def test_folders_that_were_made_but_not_synced_are_synced_when_the_topic_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = open_broker(tmp_path)
    grown = broker.create_topic("grown", 1, {})
    real = os.open

    def no_files(path: str | Path, flags: int, mode: int = 0o777) -> int:
        if flags & os.O_CREAT == 0:
            raise OSError(errno.EMFILE, "Too many open files")
        return real(path, flags, mode)

    with monkeypatch.context() as patched:
        patched.setattr(os, "open", no_files)
        with pytest.raises(RefusedError, match="Too many open files"):
            broker.create_topic("t", 2, {})
        with pytest.raises(RefusedError, match="Too many open files"):
            broker.grow_topic(grown, 3)
    assert (list(broker.topics), broker.partition_count) == (["grown"], 1)
    synced = syncs_of_folders(monkeypatch)
    topic = broker.create_topic("t", 2, {})
    assert {topic.folder, tmp_path / "topics", tmp_path} <= set(synced)
    synced.clear()
    broker.grow_topic(grown, 3)
    assert grown.folder in synced
    broker.stop()


def test_a_start_syncs_all_folders_once_whoever_made_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An earlier start may have made them anew and died before it synced."""
    broker = open_broker(tmp_path)
    folders = [broker.create_topic(name, 3, {}).folder for name in ("t", "u")]
    broker.stop()
    synced = syncs_of_folders(monkeypatch)
    open_broker(tmp_path).stop()
    assert sorted(synced) == sorted([*folders, tmp_path / "topics", tmp_path])


async def test_a_commit_does_not_reach_a_topic_made_again_while_it_was_on_its_way(
    tmp_path: Path,
) -> None:
    broker = open_broker(tmp_path)
    groups = broker.coordinator
    topic = broker.create_topic("t", 1, {})
    gate = threading.Event()
    groups._thread.submit(gate.wait, 10)
    offsets = [CommittedOffset("t", 0, 77, -1, None)]
    late = asyncio.create_task(groups.commit("g", "", None, -1, offsets))
    await asyncio.sleep(0.01)
    broker.delete_topic(topic)
    broker.create_topic("t", 1, {})
    gate.set()
    await late
    assert broker.meta.offsets("g") == {}
    broker.stop()


def test_a_folder_that_is_written_to_while_its_topic_is_deleted_is_removed_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = open_broker(tmp_path)
    topic = broker.create_topic("t", 1, {})
    with monkeypatch.context() as patched:
        patched.setattr(shutil, "rmtree", lambda *_, **__: None)
        broker.delete_topic(topic)
    assert topic.folder.exists()
    broker.remove_deleted()
    assert not topic.folder.exists()
    broker.stop()
