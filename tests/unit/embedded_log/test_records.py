import tracemalloc
from collections.abc import Callable

import pytest

from pipeline.embedded.log.batch import read_header
from pipeline.embedded.log.compaction import Newest, clean_batch, note_newest
from pipeline.embedded.log.records import first_record_since, has_null_key
from tests.unit.embedded_log.batches import ZSTD, make_batch, make_dense

COUNT = 50_000


def find_too_late(batch: memoryview) -> None:
    assert first_record_since(batch, read_header(batch), 2, 0) is None


def note(batch: memoryview) -> None:
    newest: Newest = {}
    note_newest(newest, batch)
    assert newest == {b"": COUNT - 1}


def clean(batch: memoryview) -> None:
    cleaned = clean_batch(
        batch, read_header(batch), {b"": COUNT}, drop_tombstones=False, log_end_offset=COUNT
    )
    assert cleaned.batch is None


@pytest.mark.parametrize("look", [has_null_key, find_too_late, note, clean])
def test_records_are_looked_at_one_by_one(look: Callable[[memoryview], object]) -> None:
    """All at once, they are some 150 bytes each."""
    batch = make_dense(COUNT)
    # Offsets in the batch are all 0; the last one has to be told from the others.
    if look is note:
        batch = make_batch([(b"", b"")] * COUNT, codec=ZSTD)
    tracemalloc.start()
    try:
        look(batch)
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak_bytes < 40 * COUNT


def test_a_batch_that_is_read_in_part_only_is_left_alone_by_compaction() -> None:
    """Its keys must not push out earlier values: nobody may be able to read its own."""
    batch = make_dense(COUNT, bytes_unpacked=7 * COUNT - 3)
    newest: Newest = {}
    note_newest(newest, batch)
    assert newest == {}
    cleaned = clean_batch(
        batch, read_header(batch), {b"": COUNT}, drop_tombstones=True, log_end_offset=COUNT
    )
    assert cleaned.batch is batch
    assert has_null_key(batch)
