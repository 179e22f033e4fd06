"""What a start makes of a partition's files that a power cut or a disk has spoilt."""

import os
import struct
from pathlib import Path

import pytest

from pipeline.embedded.log import recovery, sidecar
from pipeline.embedded.log.partition import Partition
from pipeline.embedded.log.segment import Segment, segment_path
from pipeline.embedded.log.topic_config import TopicConfig
from tests.kit.whole_partitions import all_of
from tests.unit.embedded_log.batches import make_values

RECORDS = 3
BATCHES = 400


class KilledError(Exception):
    """Stands where the process would end."""


def kill(_segments: list[Segment]) -> None:
    raise KilledError


def opened(folder: Path) -> Partition:
    return Partition(folder, TopicConfig({}), 0, 1_000_000, lambda *_: None)


def closed(folder: Path) -> bytes:
    """A partition of two segments, the first with its sidecar; what the first holds."""
    partition = opened(folder)
    for _ in range(BATCHES):
        partition.append(make_values(RECORDS), 1_000)
    first = partition.active
    partition.roll(2_000)
    sidecar.save(first.sidecar_path, sidecar.sidecar_of(first, partition.producers.snapshot()))
    partition.append(make_values(RECORDS), 3_000)
    partition.close()
    return first.path.read_bytes()


def made_by(producer_id: int, sequence: int) -> memoryview:
    return make_values(1, producer_id=producer_id, epoch=0, sequence=sequence)


def lose(folder: Path, base_offset: int, batches: int) -> None:
    """So many of a segment's last batches never came to the disk, nor did its sidecar."""
    path = segment_path(folder, base_offset)
    path.with_suffix(".meta").unlink(missing_ok=True)
    with path.open("r+b") as file:
        file.truncate(path.stat().st_size - batches * len(make_values(RECORDS)))


def read_all(partition: Partition) -> bytes:
    """What a consumer sees that asks again and again; the partition is closed then."""
    assert partition.start_offset == 0
    found = all_of(partition, 1_000)
    partition.close()
    return found


@pytest.mark.parametrize("size", [4, 8, 16])
def test_a_sidecar_with_zeros_in_it_vouches_for_nothing(size: int, tmp_path: Path) -> None:
    """As a power cut leaves one that was not synced: its length is there, not all of its pages."""
    first = closed(tmp_path)
    path = segment_path(tmp_path, 0).with_suffix(".meta")
    whole = bytearray(path.read_bytes())
    at = whole.index(b"\xff" * 8)  # The newest time before the first batch, in the index.
    whole[at : at + size] = bytes(size)
    path.write_bytes(whole)
    assert sidecar.load(path, len(first)) is None
    assert read_all(opened(tmp_path))[: len(first)] == first
    known = sidecar.load(path, len(first))
    assert known is not None, "it was written anew"
    assert known.next_offset == BATCHES * RECORDS


@pytest.mark.parametrize("at", range(0, 260, 13))
def test_a_bit_of_a_sidecar_that_flipped_is_noticed(at: int, tmp_path: Path) -> None:
    first = closed(tmp_path)
    path = segment_path(tmp_path, 0).with_suffix(".meta")
    whole = bytearray(path.read_bytes())
    whole[at % len(whole)] ^= 4
    path.write_bytes(whole)
    assert sidecar.load(path, len(first)) is None
    assert sidecar.load_index(path, len(first)) is None


def test_a_batch_whose_offset_is_the_next_segments_is_cut_off(tmp_path: Path) -> None:
    """Its checksum does not cover its offset. Behind it a consumer would never come to the next."""
    first = closed(tmp_path)
    segment_path(tmp_path, 0).with_suffix(".meta").unlink()
    size = len(make_values(RECORDS))
    spoilt = bytearray(first)
    struct.pack_into(">q", spoilt, len(first) - size, 5_000)
    segment_path(tmp_path, 0).write_bytes(spoilt)
    last = segment_path(tmp_path, BATCHES * RECORDS).read_bytes()
    assert read_all(opened(tmp_path)) == first[:-size] + last


@pytest.mark.parametrize("lost", [1, BATCHES])
def test_a_log_ends_with_its_last_record_though_the_next_segment_had_begun(
    lost: int, tmp_path: Path
) -> None:
    """Its name was on the disk, and the end of the one before was not. Whoever read up to the
    log's end never arrived there, and what was lost passed for what is there."""
    first = closed(tmp_path)
    last = BATCHES * RECORDS
    lose(tmp_path, last, 1)
    lose(tmp_path, 0, lost)
    left = first[: len(first) - lost * len(make_values(RECORDS))]
    partition = opened(tmp_path)
    assert partition.end_offset == last - lost * RECORDS
    assert all_of(partition, 1_000) == left
    # More than what is lost: a name that came back would cut it off.
    for _ in range(lost + 2):
        partition.append(make_values(RECORDS), 4_000)
    partition.close()
    again = opened(tmp_path)
    assert again.end_offset == last + 2 * RECORDS
    assert len(read_all(again)) == len(first) + 2 * len(make_values(RECORDS))


@pytest.mark.parametrize("is_cut_off", [False, True])
def test_a_log_that_ends_before_a_segment_that_had_begun_knows_its_producers(
    is_cut_off: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing came behind what is left of them: what they send again is in the log already."""
    partition = opened(tmp_path)
    for sequence in range(6):
        partition.append(made_by(7, sequence), 1_000)
    first, size = partition.active, partition.active.size
    partition.roll(2_000)
    partition.close()
    os.truncate(first.path, size * 5 // 6)
    if is_cut_off:
        # A start that has given the first segment its sidecar, and is killed then.
        with monkeypatch.context() as patched:
            patched.setattr(recovery, "_drop_last", kill)
            with pytest.raises(KilledError):
                opened(tmp_path)
    again = opened(tmp_path)
    assert again.end_offset == 5
    assert again.append(made_by(7, 4), 3_000).base_offset == 4
    assert again.append(made_by(7, 5), 3_000).base_offset == 5
    assert again.end_offset == 6
    again.close()


def test_several_segments_that_had_just_begun_are_dropped(tmp_path: Path) -> None:
    """Of some the records are lost, and of the last one there were none yet."""
    first = closed(tmp_path)
    lose(tmp_path, BATCHES * RECORDS, 1)
    lose(tmp_path, 0, 1)
    segment_path(tmp_path, (BATCHES + 1) * RECORDS).touch()
    partition = opened(tmp_path)
    assert partition.end_offset == (BATCHES - 1) * RECORDS
    assert read_all(partition) == first[: -len(make_values(RECORDS))]


def test_a_log_whose_last_segment_is_empty_and_whole_ends_there(tmp_path: Path) -> None:
    first = closed(tmp_path)
    lose(tmp_path, BATCHES * RECORDS, 1)
    for _ in range(2):
        partition = opened(tmp_path)
        assert partition.end_offset == BATCHES * RECORDS
        assert len(partition.segments) == 2
        assert read_all(partition) == first
