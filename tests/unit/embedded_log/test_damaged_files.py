"""What a start makes of a partition's files that a power cut or a disk has spoilt."""

import struct
from pathlib import Path

import pytest

from pipeline.embedded.log import sidecar
from pipeline.embedded.log.partition import Partition
from pipeline.embedded.log.segment import segment_path
from pipeline.embedded.log.topic_config import TopicConfig
from tests.kit.whole_partitions import all_of
from tests.unit.embedded_log.batches import make_values

RECORDS = 3
BATCHES = 400


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
