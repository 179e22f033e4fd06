import struct

import pytest
from kio.schema.errors import ErrorCode

from pipeline.embedded.log.batch import (
    RejectedBatchError,
    admit,
    is_intact,
    read_header,
    stamp,
)
from tests.unit.embedded_log.batches import make_values, reseal

LIMIT = 1 << 20


def refusal(batch: memoryview, limit: int = LIMIT) -> ErrorCode:
    with pytest.raises(RejectedBatchError) as caught:
        admit(batch, limit)
    return caught.value.code


def test_a_batch_of_a_real_producer_is_admitted() -> None:
    header = admit(make_values(3, producer_id=7, epoch=1, sequence=5), LIMIT)
    assert (header.record_count, header.producer_id, header.last_sequence) == (3, 7, 7)


def test_sequences_wrap_at_two_to_the_31() -> None:
    header = admit(make_values(3, producer_id=7, epoch=1, sequence=2**31 - 1), LIMIT)
    assert header.last_sequence == 1


@pytest.mark.parametrize("place", [21, 40, -1])
def test_a_flipped_bit_is_refused_as_corrupt(place: int) -> None:
    batch = make_values(3)
    batch[place] ^= 0x40
    assert refusal(batch) is ErrorCode.corrupt_message


@pytest.mark.parametrize("size", [0, 16, 60, 70])
def test_a_batch_cut_short_is_refused_as_corrupt(size: int) -> None:
    assert refusal(make_values(3)[:size]) is ErrorCode.corrupt_message


def test_two_batches_in_one_partition_are_refused() -> None:
    two = memoryview(bytearray(bytes(make_values(1)) * 2))
    assert refusal(two) is ErrorCode.invalid_record


def test_a_batch_above_the_limit_is_refused_as_too_large() -> None:
    batch = make_values(3)
    assert refusal(batch, len(batch) - 1) is ErrorCode.message_too_large
    admit(batch, len(batch))


def test_old_formats_are_refused_by_name() -> None:
    batch = make_values(1)
    batch[16] = 1
    assert refusal(batch) is ErrorCode.unsupported_for_message_format


def test_control_and_transactional_batches_are_refused() -> None:
    for bit, code in ((0x20, ErrorCode.invalid_record), (0x10, ErrorCode.invalid_txn_state)):
        batch = make_values(1)
        batch[22] |= bit
        assert refusal(reseal(batch)) is code


def test_a_batch_with_gaps_between_offsets_is_refused() -> None:
    batch = make_values(3)
    struct.pack_into(">i", batch, 23, 9)
    assert refusal(reseal(batch)) is ErrorCode.invalid_record


def test_a_stamp_with_the_creators_time_keeps_the_checksum() -> None:
    batch = make_values(2)
    before = read_header(batch)
    stamp(batch, before, 41, None)
    after = read_header(batch)
    assert (after.base_offset, after.leader_epoch, after.crc) == (41, 0, before.crc)
    assert is_intact(batch, after)


def test_a_stamp_with_the_logs_time_sets_it_for_all_records() -> None:
    batch = make_values(2)
    stamp(batch, read_header(batch), 41, 99_000)
    after = read_header(batch)
    assert after.is_log_append_time
    assert after.max_timestamp_ms == 99_000
    assert is_intact(batch, after)


def test_a_producer_cannot_claim_the_logs_time() -> None:
    batch = make_values(2)
    batch[22] |= 0x08
    reseal(batch)
    stamp(batch, read_header(batch), 0, None)
    after = read_header(batch)
    assert not after.is_log_append_time
    assert is_intact(batch, after)
