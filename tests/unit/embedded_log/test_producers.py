import pytest
from kio.schema.errors import ErrorCode

from pipeline.embedded.log import producers
from pipeline.embedded.log.batch import BatchHeader, RejectedBatchError, read_header
from pipeline.embedded.log.producers import EXPIRY_MS, ProducerTable
from tests.unit.embedded_log.batches import make_values


def header(sequence: int, count: int = 1, epoch: int = 0, producer_id: int = 9) -> BatchHeader:
    batch = make_values(count, producer_id=producer_id, epoch=epoch, sequence=sequence)
    return read_header(batch)


def store(table: ProducerTable, batch: BatchHeader, offset: int, now_ms: int = 0) -> None:
    assert table.check(batch) is None
    table.store(batch, offset, 123, now_ms)


def refusal(table: ProducerTable, batch: BatchHeader) -> ErrorCode:
    with pytest.raises(RejectedBatchError) as caught:
        table.check(batch)
    return caught.value.code


def test_a_retry_is_answered_with_the_first_place() -> None:
    table = ProducerTable()
    store(table, header(0, count=3), 100)
    store(table, header(3, count=2), 103)
    repeated = table.check(header(0, count=3))
    assert repeated is not None
    assert repeated.base_offset == 100


def test_five_batches_are_remembered_and_the_sixth_is_out_of_order() -> None:
    table = ProducerTable()
    for sequence in range(6):
        store(table, header(sequence), sequence)
    assert all(table.check(header(sequence)) is not None for sequence in range(1, 6))
    assert refusal(table, header(0)) is ErrorCode.out_of_order_sequence_number


def test_a_hole_in_the_sequence_is_refused() -> None:
    table = ProducerTable()
    store(table, header(0), 0)
    assert refusal(table, header(2)) is ErrorCode.out_of_order_sequence_number


def test_the_sequence_goes_on_after_its_greatest_number() -> None:
    table = ProducerTable()
    store(table, header(2**31 - 2, count=2), 0)
    store(table, header(0), 2)


def test_an_older_epoch_is_refused_and_a_newer_one_starts_at_zero() -> None:
    table = ProducerTable()
    store(table, header(0, epoch=1), 0)
    assert refusal(table, header(1, epoch=0)) is ErrorCode.invalid_producer_epoch
    assert refusal(table, header(1, epoch=2)) is ErrorCode.out_of_order_sequence_number
    store(table, header(0, epoch=2), 1)


def test_a_producer_the_partition_never_met_may_start_anywhere() -> None:
    store(ProducerTable(), header(77), 0)


def test_batches_without_a_producer_are_not_remembered() -> None:
    table = ProducerTable()
    store(table, read_header(make_values(1)), 0)
    assert len(table) == 0


def test_producers_are_forgotten_after_a_day() -> None:
    table = ProducerTable()
    store(table, header(0, producer_id=1), 0, now_ms=0)
    store(table, header(0, producer_id=2), 1, now_ms=10)
    table.expire(EXPIRY_MS + 5)
    assert len(table) == 1
    assert table.check(header(0, producer_id=2)) is not None


def test_the_table_is_bounded_and_lets_the_longest_silent_go(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(producers, "PRODUCERS_MAX", 2)
    table = ProducerTable()
    store(table, header(0, producer_id=1), 0)
    store(table, header(0, producer_id=2), 1)
    store(table, header(1, producer_id=1), 2)
    store(table, header(0, producer_id=3), 3)
    assert table.check(header(0, producer_id=1)) is not None
    assert table.check(header(0, producer_id=2)) is None


def test_a_snapshot_restores_everything() -> None:
    table, other = ProducerTable(), ProducerTable()
    for sequence in range(7):
        store(table, header(sequence), sequence)
    other.restore(table.snapshot())
    assert other.snapshot() == table.snapshot()
    assert other.check(header(6)) is not None
