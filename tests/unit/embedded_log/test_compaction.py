import random
import struct
from pathlib import Path

import pytest

from pipeline.embedded.log.batch import is_intact, read_header
from pipeline.embedded.log.compaction import (
    Newest,
    Source,
    clean_batch,
    groups_of,
    newest_offsets,
    note_newest,
    swap_name,
    write_clean,
)
from pipeline.embedded.log.partition import Partition
from pipeline.embedded.log.records import records_of
from pipeline.embedded.log.recovery import finish_swap
from pipeline.embedded.log.topic_config import TopicConfig
from tests.unit.embedded_log.batches import Pair, make_batch, reseal
from tests.unit.embedded_log.test_partition import open_partition

CODECS = range(5)


def compact(partition: Partition, now_ms: int = 0, keep_tombstones_ms: int = 0) -> None:
    """One pass as the cleaner makes it, without threads."""
    closed = partition.segments[:-1]
    dirty = [Source.of(s) for s in closed if not s.cleaned]
    newest, _ = newest_offsets(dirty)
    sources = [Source.of(s) for s in closed]
    for group in groups_of(sources, partition.config.segment_bytes):
        cleaned = write_clean(group, newest, now_ms, keep_tombstones_ms, partition.end_offset)
        swap = cleaned.path.rename(cleaned.path.with_name(swap_name(group) + ".swap"))
        old = [source.segment for source in group]
        for segment in old:
            segment.close()
        finish_swap(swap)
        cleaned.path = old[0].path
        partition.replace(old, cleaned)


def content(partition: Partition) -> list[tuple[int, bytes | None, bytes | None]]:
    """Offset, key and value of every record, in order."""
    found = []
    for segment in partition.segments:
        for position, header in segment.scan(0):
            batch = segment.batch_at(position, header)
            assert is_intact(batch, header)
            found += [(r.offset, r.key, r.value) for r in records_of(batch)]
    return found


def latest(pairs: list[Pair]) -> list[tuple[int, bytes | None, bytes | None]]:
    last = {key: offset for offset, (key, _) in enumerate(pairs)}
    return [(o, k, v) for o, (k, v) in enumerate(pairs) if last[k] == o]


@pytest.mark.parametrize("codec", CODECS)
def test_a_batch_keeps_offsets_times_and_codec_of_what_stays(codec: int) -> None:
    pairs: list[Pair] = [(b"a", b"1"), (b"b", b"2"), (b"a", b"3"), (b"c", b"4" * 200)]
    batch = make_batch(pairs, codec=codec)
    newest: Newest = {}
    note_newest(newest, batch)
    cleaned = clean_batch(
        batch, read_header(batch), newest, drop_tombstones=False, log_end_offset=99
    )
    assert cleaned.batch is not None
    view = memoryview(cleaned.batch)
    assert is_intact(view, read_header(view))
    assert read_header(view).codec == codec
    assert [(r.offset, r.timestamp, r.value) for r in records_of(view)] == [
        (1, 1001, b"2"),
        (2, 1002, b"3"),
        (3, 1003, b"4" * 200),
    ]
    assert read_header(view).next_offset == 4


def test_a_batch_that_cannot_be_read_stays_as_it_is() -> None:
    batch = make_batch([(b"a", b"1")] * 3, codec=4)
    batch[61:] = bytes(len(batch) - 61)
    cleaned = clean_batch(
        batch, read_header(batch), {b"a": 100}, drop_tombstones=True, log_end_offset=99
    )
    assert cleaned.batch is batch


@pytest.mark.parametrize("seed", range(5))
def test_only_the_last_value_of_each_key_is_left(tmp_path: Path, seed: int) -> None:
    print(f"seed {seed}")
    rng = random.Random(seed)
    partition = open_partition(
        tmp_path, cleanup_policy="compact", segment_bytes=str(rng.choice([400, 2000]))
    )
    pairs: list[Pair] = []
    for _ in range(60):
        keys = [b"key-%d" % rng.randrange(8) * rng.choice([1, 9]) for _ in range(rng.randint(1, 6))]
        more: list[Pair] = [(key, b"%d" % rng.getrandbits(30)) for key in keys]
        partition.append(make_batch(more, codec=rng.choice(CODECS)), 5)
        pairs += more
        if rng.random() < 0.1:
            partition.roll(5)
            compact(partition)
    partition.roll(5)
    compact(partition)
    assert content(partition) == latest(pairs)
    end_offset = partition.end_offset
    partition.close()
    again = open_partition(tmp_path, cleanup_policy="compact")
    assert content(again) == latest(pairs)
    assert again.end_offset == end_offset
    again.close()


def test_a_tombstone_stays_for_its_time_and_then_goes(tmp_path: Path) -> None:
    partition = open_partition(tmp_path, cleanup_policy="compact")
    partition.append(make_batch([(b"a", b"1"), (b"b", b"1"), (b"a", None)]), 5)
    partition.append(make_batch([(b"c", b"1")]), 5)
    partition.roll(5)
    compact(partition, now_ms=1000, keep_tombstones_ms=100)
    assert content(partition) == [(1, b"b", b"1"), (2, b"a", None), (3, b"c", b"1")]
    compact(partition, now_ms=1099, keep_tombstones_ms=100)
    assert (2, b"a", None) in content(partition)
    compact(partition, now_ms=1100, keep_tombstones_ms=100)
    assert content(partition) == [(1, b"b", b"1"), (3, b"c", b"1")]
    partition.close()


def test_the_last_record_of_the_log_stays_even_as_an_old_tombstone(tmp_path: Path) -> None:
    partition = open_partition(tmp_path, cleanup_policy="compact")
    partition.append(make_batch([(b"a", b"1"), (b"a", None)]), 5)
    partition.roll(5)
    for now_ms in (1000, 2000, 3000):
        compact(partition, now_ms=now_ms)
    assert content(partition) == [(1, b"a", None)]
    partition.close()


def test_a_death_after_the_commit_point_is_finished_at_start(tmp_path: Path) -> None:
    partition = open_partition(tmp_path, cleanup_policy="compact", segment_bytes="300")
    pairs: list[Pair] = [(b"k%d" % (i % 3), b"%d" % i) for i in range(30)]
    for pair in pairs:
        partition.append(make_batch([pair]), 5)
    partition.append(make_batch([(b"last", b"x")]), 5)
    partition.roll(5)
    sources = [Source.of(s) for s in partition.segments[:-1]]
    newest, _ = newest_offsets(sources)
    cleaned = write_clean(sources, newest, 0, 0, partition.end_offset)
    cleaned.path.rename(cleaned.path.with_name(swap_name(sources) + ".swap"))
    # The process dies here, with some of the old segments already gone.
    sources[0].segment.path.unlink()
    partition.close()
    again = open_partition(tmp_path, cleanup_policy="compact")
    assert content(again) == latest([*pairs, (b"last", b"x")])
    assert len(again.segments) == 2
    again.close()


def test_a_death_before_the_commit_point_leaves_the_log_as_it_was(tmp_path: Path) -> None:
    partition = open_partition(tmp_path, cleanup_policy="compact")
    partition.append(make_batch([(b"a", b"1"), (b"a", b"2")]), 5)
    partition.roll(5)
    before = content(partition)
    sources = [Source.of(s) for s in partition.segments[:-1]]
    write_clean(sources, newest_offsets(sources)[0], 0, 0, partition.end_offset)
    partition.close()
    again = open_partition(tmp_path, cleanup_policy="compact")
    assert content(again) == before
    assert not list(tmp_path.glob("*.clean"))
    again.close()


def test_without_a_sidecar_that_fits_nothing_is_written(tmp_path: Path) -> None:
    partition = open_partition(tmp_path, cleanup_policy="compact")
    partition.append(make_batch([(b"a", b"1"), (b"a", b"2")]), 5)
    partition.roll(5)
    partition.segments[0].sidecar_path.write_bytes(b"torn")
    sources = [Source.of(partition.segments[0])]
    with pytest.raises(OSError, match="sidecar"):
        write_clean(sources, newest_offsets(sources)[0], 0, 0, partition.end_offset)
    assert not list(tmp_path.glob("*.clean"))
    partition.close()


def test_producers_are_remembered_after_their_batches_are_gone(tmp_path: Path) -> None:
    partition = open_partition(tmp_path, cleanup_policy="compact")
    partition.append(make_batch([(b"a", b"1")], producer_id=5, epoch=0, sequence=0), 5)
    partition.append(make_batch([(b"a", b"2")], producer_id=6, epoch=0, sequence=0), 5)
    partition.roll(5)
    compact(partition)
    partition.close()
    again = open_partition(tmp_path, cleanup_policy="compact")
    assert len(content(again)) == 1
    retry = make_batch([(b"a", b"1")], producer_id=5, epoch=0, sequence=0)
    assert again.append(retry, 6).base_offset == 0
    again.close()


@pytest.mark.parametrize("rolls", [set(), {0}, {1}, {0, 1}, {0, 1, 2}])
def test_a_living_producer_goes_on_where_compacted_segments_have_lost_their_sidecars(
    tmp_path: Path, rolls: set[int]
) -> None:
    """Its last batch is gone, from the middle, the beginning, the end, or as all of a segment."""
    partition = open_partition(tmp_path, cleanup_policy="compact")
    sent = [(b"a", 7, 0), (b"b", 7, 1), (b"b", 8, 0), (b"c", 8, 1)]
    for number, (key, producer_id, sequence) in enumerate(sent):
        batch = make_batch([(key, b"1")], producer_id=producer_id, epoch=0, sequence=sequence)
        partition.append(batch, 5)
        if number in rolls:
            partition.roll(5)
    partition.roll(5)
    # As large as one batch: what is left of segments is not put together.
    partition.config = TopicConfig({"cleanup.policy": "compact", "segment.bytes": "14"})
    compact(partition)
    assert [offset for offset, _, _ in content(partition)] == [0, 2, 3]
    partition.close()
    for path in tmp_path.glob("*.meta"):
        path.unlink()
    for _ in range(2):
        # The second start goes by the sidecars that the first has written.
        again = open_partition(tmp_path, cleanup_policy="compact")
        retry = make_batch([(b"c", b"1")], producer_id=8, epoch=0, sequence=1)
        assert again.append(retry, 6).base_offset == 3
        again.close()
    again = open_partition(tmp_path, cleanup_policy="compact")
    goes_on = make_batch([(b"d", b"1")], producer_id=7, epoch=0, sequence=2)
    assert again.append(goes_on, 6).base_offset == 4
    again.close()


def test_a_segment_of_which_nothing_is_missing_tells_all_of_its_producers(tmp_path: Path) -> None:
    """One that was compacted and kept a record of each batch, and one that never was."""
    partition = open_partition(tmp_path, cleanup_policy="compact")
    for sequence in (0, 2):
        for producer_id in (7, 8):
            pairs: list[Pair] = [(b"%d-%d" % (producer_id, sequence), b"1"), (b"all", b"1")]
            batch = make_batch(pairs, producer_id=producer_id, epoch=0, sequence=sequence)
            partition.append(batch, 5)
        partition.roll(5)
    compact(partition)
    assert [offset for offset, _, _ in content(partition)] == [0, 2, 4, 6, 7]
    partition.append(make_batch([(b"x", b"1")], producer_id=9, epoch=0, sequence=0), 5)
    partition.roll(5)
    expected = [one[0] for one in partition.producers.snapshot()]
    partition.close()
    for path in tmp_path.glob("*.meta"):
        path.unlink()
    again = open_partition(tmp_path, cleanup_policy="compact")
    assert [one[0] for one in again.producers.snapshot()] == expected
    retry = make_batch([(b"7-0", b"1"), (b"all", b"1")], producer_id=7, epoch=0, sequence=0)
    assert again.append(retry, 6).base_offset == 0
    again.close()


@pytest.mark.parametrize("codec", CODECS)
def test_the_newest_time_after_a_compaction_is_that_of_a_record_that_is_there(
    tmp_path: Path, codec: int
) -> None:
    partition = open_partition(tmp_path, cleanup_policy="compact,delete")
    first: list[Pair] = [(b"a", b"1"), (b"b", b"1"), (b"d", b"1")]
    partition.append(make_batch(first, codec=codec, timestamps_ms=[1000, 9000, 1200]), 5)
    partition.append(make_batch([(b"b", b"2")], codec=codec, timestamps_ms=[2000]), 5)
    partition.append(make_batch([(b"c", b"2")], codec=codec, timestamps_ms=[1500]), 5)
    partition.roll(5)
    assert partition.newest() == (1, 9000)
    compact(partition)
    # Retention and the cleaner go by the segment's.
    assert (partition.newest(), partition.segments[0].max_timestamp_ms) == ((3, 2000), 2000)
    assert partition.find_timestamp(1100) == (2, 1200)
    assert [offset for offset, _, _ in content(partition)] == [0, 2, 3, 4]
    partition.close()


def test_a_compacted_batch_keeps_the_logs_own_time(tmp_path: Path) -> None:
    partition = open_partition(
        tmp_path, cleanup_policy="compact", message_timestamp_type="LogAppendTime"
    )
    partition.append(make_batch([(b"a", b"1"), (b"b", b"1")], timestamps_ms=[1000, 9000]), 700)
    partition.append(make_batch([(b"b", b"2")], timestamps_ms=[2000]), 600)
    partition.roll(700)
    compact(partition)
    assert partition.newest() == (0, 700)
    assert [offset for offset, _, _ in content(partition)] == [0, 2]
    partition.close()


def test_a_batch_that_an_earlier_version_left_a_time_too_new_is_set_right() -> None:
    pairs: list[Pair] = [(b"a", b"1"), (b"b", b"2")]
    right = make_batch(pairs, timestamps_ms=[1000, 2000])
    stale = memoryview(bytearray(right))
    struct.pack_into(">q", stale, 35, 9000)
    reseal(stale)
    cleaned = clean_batch(stale, read_header(stale), {}, drop_tombstones=False, log_end_offset=9)
    assert cleaned.batch == right
