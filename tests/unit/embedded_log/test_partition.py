import errno
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from pipeline.embedded.log import sidecar
from pipeline.embedded.log.batch import BatchHeader, RejectedBatchError, read_header
from pipeline.embedded.log.partition import Partition
from pipeline.embedded.log.producers import Snapshot
from pipeline.embedded.log.records import records_of
from pipeline.embedded.log.segment import Segment
from pipeline.embedded.log.sidecar import sidecar_of
from pipeline.embedded.log.topic_config import TopicConfig
from tests.unit.embedded_log.batches import GZIP, ZSTD, make_batch, make_values


def vouch(_partition: Partition, segment: Segment, producers: Snapshot) -> None:
    """Does at once what the flusher does in its thread."""
    sidecar.save(segment.sidecar_path, sidecar_of(segment, producers))


def open_partition(folder: Path, start_offset: int = 0, **settings: str) -> Partition:
    config = TopicConfig({name.replace("_", "."): value for name, value in settings.items()})
    return Partition(folder, config, start_offset, 1_000_000, vouch)


def offsets_in(data: bytes) -> list[int]:
    """The offsets of all records in a fetched piece of log."""
    view, found = memoryview(data), []
    while view:
        header = read_header(view)
        found += [record.offset for record in records_of(view[: header.size])]
        view = view[header.size :]
    return found


def read_all(partition: Partition, start: int = 0, max_bytes: int = 300) -> list[int]:
    """What a consumer sees that asks again and again, in small pieces."""
    found: list[int] = []
    offset = start
    while offset < partition.end_offset:
        data, _ = partition.read(offset, max_bytes)
        if not data:
            break
        found += [o for o in offsets_in(data) if o >= offset]
        offset = found[-1] + 1
    return found


def test_what_was_appended_is_read_back_in_order(tmp_path: Path) -> None:
    partition = open_partition(tmp_path, segment_bytes="2000")
    for _ in range(40):
        partition.append(make_values(3), 5)
    assert partition.end_offset == 120
    assert len(partition.segments) > 2
    assert read_all(partition) == list(range(120))
    assert read_all(partition, start=61) == list(range(61, 120))
    partition.close()


def test_a_folder_that_cannot_be_read_does_not_pass_for_an_empty_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is appended next would be written over the records that are there."""
    partition = open_partition(tmp_path)
    partition.append(make_values(3), 5)
    partition.close()

    def refuse(_folder: Path) -> list[str]:
        raise PermissionError(errno.EACCES, "Permission denied")

    with monkeypatch.context() as patched:
        patched.setattr(os, "listdir", refuse)
        patched.setattr(os, "scandir", refuse)
        with pytest.raises(PermissionError):
            open_partition(tmp_path)


def test_a_read_gives_whole_batches_and_at_least_one(tmp_path: Path) -> None:
    partition = open_partition(tmp_path)
    for _ in range(10):
        partition.append(make_values(5), 5)
    assert offsets_in(partition.read(7, 1)[0]) == [5, 6, 7, 8, 9]
    size = partition.active.size // 10
    assert offsets_in(partition.read(0, 3 * size + 1)[0]) == list(range(15))
    partition.close()


def test_reads_in_a_large_segment_use_the_index(tmp_path: Path) -> None:
    partition = open_partition(tmp_path)
    for _ in range(200):
        partition.append(make_batch([(None, b"x" * 2000)]), 5)
    assert len(partition.active.index.positions) > 5
    assert read_all(partition, max_bytes=50_000) == list(range(200))
    partition.close()


@pytest.mark.parametrize("cut_bytes", [1, 30, 100])
def test_a_torn_tail_is_cut_at_start(tmp_path: Path, cut_bytes: int) -> None:
    partition = open_partition(tmp_path)
    for _ in range(5):
        partition.append(make_values(4), 5)
    path, size = partition.active.path, partition.active.size
    partition.close()
    os.truncate(path, size - cut_bytes)
    again = open_partition(tmp_path)
    assert again.end_offset == 16
    assert path.stat().st_size == size * 4 // 5
    assert again.append(make_values(1), 5).base_offset == 16
    again.close()


def test_garbage_after_the_last_batch_is_cut_at_start(tmp_path: Path) -> None:
    partition = open_partition(tmp_path)
    partition.append(make_values(4), 5)
    path = partition.active.path
    partition.close()
    with path.open("ab") as file:
        file.write(os.urandom(500))
    again = open_partition(tmp_path)
    assert read_all(again) == [0, 1, 2, 3]
    again.close()


def test_a_flipped_bit_in_the_middle_ends_the_log_there(tmp_path: Path) -> None:
    partition = open_partition(tmp_path)
    for _ in range(3):
        partition.append(make_values(2), 5)
    path, size = partition.active.path, partition.active.size
    partition.close()
    data = bytearray(path.read_bytes())
    data[size // 3 + 70] ^= 1
    path.write_bytes(data)
    again = open_partition(tmp_path)
    assert again.end_offset == 2
    again.close()


def test_closed_segments_are_not_read_again_at_start(tmp_path: Path) -> None:
    partition = open_partition(tmp_path, segment_bytes="500")
    for _ in range(10):
        partition.append(make_values(3), 5)
    first = partition.segments[0].path
    partition.close()
    # Were the segment read, its damage would be found; its sidecar vouches for it.
    data = bytearray(first.read_bytes())
    data[65] ^= 1
    first.write_bytes(data)
    again = open_partition(tmp_path, segment_bytes="500")
    assert again.end_offset == 30
    assert again.segments[0].size == len(data)
    again.close()


def test_producers_survive_in_sidecars_and_batches(tmp_path: Path) -> None:
    partition = open_partition(tmp_path, segment_bytes="300")
    for sequence in range(8):
        partition.append(make_values(1, producer_id=3, epoch=0, sequence=sequence), 5)
        partition.append(make_values(1, producer_id=4 + sequence, epoch=0, sequence=0), 5)
    expected = partition.producers.snapshot()
    partition.close()
    again = open_partition(tmp_path, segment_bytes="300")
    assert [p[0] for p in again.producers.snapshot()] == [p[0] for p in expected]
    repeated = again.append(make_values(1, producer_id=3, epoch=0, sequence=7), 6)
    assert repeated.base_offset == 14
    assert again.end_offset == 16
    again.close()


def test_a_closed_segment_that_had_to_be_read_has_its_sidecar_again(tmp_path: Path) -> None:
    partition = open_partition(tmp_path)
    partition.append(make_values(1, producer_id=3, epoch=0, sequence=0), 5)
    partition.roll(5)
    partition.append(make_values(1, producer_id=4, epoch=0, sequence=0), 5)
    partition.roll(5)
    partition.append(make_values(1), 5)
    closed = partition.segments[1]
    # As after a kill before the flusher came to it, or a power cut that spoilt it.
    closed.sidecar_path.write_bytes(b"torn")
    partition.close()
    open_partition(tmp_path).close()
    known = sidecar.load(closed.sidecar_path, closed.size)
    assert known is not None
    assert [producer_id for producer_id, *_ in known.producers] == [3, 4]
    assert (known.next_offset, known.cleaned) == (2, False)
    assert not partition.active.sidecar_path.exists()


def test_a_start_goes_on_without_a_sidecar_that_the_disk_does_not_take(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    partition = open_partition(tmp_path)
    partition.append(make_values(1), 5)
    partition.roll(5)
    partition.append(make_values(1), 5)
    closed = partition.segments[0].sidecar_path
    closed.write_bytes(b"torn")
    partition.close()

    def refuse(_path: Path, _known: object) -> None:
        raise OSError(28, "no space left on the device")

    monkeypatch.setattr(sidecar, "save", refuse)
    again = open_partition(tmp_path)
    assert read_all(again) == [0, 1]
    assert not closed.exists()
    again.close()


def test_a_start_does_not_go_on_with_a_disk_that_cannot_sync(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has lost what it took, and a later sync would say nothing of that."""
    partition = open_partition(tmp_path)
    partition.append(make_values(1), 5)
    partition.roll(5)
    closed = partition.segments[0]
    closed.sidecar_path.unlink()
    partition.close()

    def bad_fsync(_fd: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "fsync", bad_fsync)
    with pytest.raises(OSError, match="Input/output error"):
        open_partition(tmp_path)
    assert not closed.sidecar_path.exists()


def test_a_retry_with_the_logs_time_is_answered_with_the_first_time(tmp_path: Path) -> None:
    partition = open_partition(tmp_path, message_timestamp_type="LogAppendTime")
    first = partition.append(make_values(1, producer_id=3, epoch=0, sequence=0), 50)
    second = partition.append(make_values(1, producer_id=3, epoch=0, sequence=0), 60)
    assert first == second == (0, 50)
    partition.close()


@pytest.mark.parametrize("codec", [0, GZIP, ZSTD])
def test_a_time_is_found_exactly_inside_a_batch(tmp_path: Path, codec: int) -> None:
    partition = open_partition(tmp_path, segment_bytes="700")
    for start_ms in range(0, 1000, 50):
        times_ms = [start_ms + 10 * i for i in range(5)]
        partition.append(make_batch([(b"k", b"v")] * 5, codec=codec, timestamps_ms=times_ms), 5)
    assert partition.find_timestamp(505) == (51, 510)
    assert partition.find_timestamp(510) == (51, 510)
    assert partition.find_timestamp(0) == (0, 0)
    assert partition.find_timestamp(991) is None
    assert partition.newest() == (99, 990)
    partition.close()


def test_deleted_records_are_not_found_by_time(tmp_path: Path) -> None:
    partition = open_partition(tmp_path)
    partition.append(make_batch([(b"k", b"v")] * 5, timestamps_ms=[1, 2, 3, 4, 5]), 5)
    partition.delete_before(3)
    assert partition.find_timestamp(0) == (3, 4)
    partition.close()


def test_the_newest_record_is_one_that_is_still_there(tmp_path: Path) -> None:
    partition = open_partition(tmp_path)
    partition.append(make_batch([(b"k", b"v")], timestamps_ms=[900]), 5)
    partition.append(make_batch([(b"k", b"v")] * 4, timestamps_ms=[50, 800, 70, 60]), 5)
    partition.append(make_batch([(b"k", b"v")] * 2, timestamps_ms=[65, 20]), 5)
    assert partition.newest() == (0, 900)
    for start_offset, newest in ((1, (2, 800)), (3, (3, 70)), (4, (5, 65)), (6, (6, 20))):
        partition.delete_before(start_offset)
        assert partition.newest() == newest
    partition.roll(5)
    partition.append(make_batch([(b"k", b"v")] * 2, timestamps_ms=[10, 30]), 5)
    assert partition.newest() == (8, 30)
    partition.delete_before(9)
    assert partition.newest() is None
    partition.close()


def test_the_newest_of_records_with_the_logs_time_is_still_there(tmp_path: Path) -> None:
    partition = open_partition(tmp_path, message_timestamp_type="LogAppendTime")
    partition.append(make_values(2), 900)
    partition.append(make_values(3), 800)
    partition.delete_before(3)
    assert partition.newest() == (3, 800)
    partition.close()


def test_headers_of_deleted_records_are_not_walked_to_find_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    partition = open_partition(tmp_path)
    for _ in range(200):
        partition.append(make_batch([(None, b"x" * 2000)], timestamps_ms=[700]), 5)
    partition.delete_before(190)
    walked: list[int] = []
    scan = Segment.scan

    def count(self: Segment, position: int) -> Iterator[tuple[int, BatchHeader]]:
        for found in scan(self, position):
            walked.append(found[1].base_offset)
            yield found

    monkeypatch.setattr(Segment, "scan", count)
    assert partition.find_timestamp(0) == (190, 700)
    assert min(walked) > 150
    partition.close()


def test_whole_segments_leave_the_disk_when_records_are_deleted(tmp_path: Path) -> None:
    partition = open_partition(tmp_path, segment_bytes="500")
    for _ in range(10):
        partition.append(make_values(3), 5)
    files = len(list(tmp_path.glob("*.log")))
    partition.delete_before(20)
    assert partition.start_offset == 20
    assert len(list(tmp_path.glob("*.log"))) < files
    assert read_all(partition, start=20) == list(range(20, 30))
    partition.close()


def test_a_log_that_lost_its_tail_goes_on_after_what_was_deleted(tmp_path: Path) -> None:
    partition = open_partition(tmp_path, start_offset=40)
    assert (partition.start_offset, partition.end_offset) == (40, 40)
    assert partition.append(make_values(1), 5).base_offset == 40
    partition.close()


def test_a_compacted_topic_refuses_records_without_keys(tmp_path: Path) -> None:
    partition = open_partition(tmp_path, cleanup_policy="compact")
    partition.append(make_batch([(b"k", None)]), 5)
    with pytest.raises(RejectedBatchError):
        partition.append(make_batch([(b"k", b"v"), (None, b"v")]), 5)
    assert partition.end_offset == 1
    partition.close()


def test_a_segment_rolls_by_age(tmp_path: Path) -> None:
    partition = open_partition(tmp_path, segment_ms="1000")
    partition.append(make_values(1), 1_000_000)
    partition.append(make_values(1), 1_000_999)
    assert len(partition.segments) == 1
    partition.append(make_values(1), 1_001_000)
    assert len(partition.segments) == 2
    partition.close()
