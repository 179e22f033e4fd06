"""A dead letter is counted once when it is retried, and only if it was refused."""

import numpy as np

from pipeline.absorb import absorb
from pipeline.fetches import Fetch
from pipeline.refused import RefusedFact, RefusedPlaces, facts_at
from pipeline.shard import Shard
from schemas.frames import FRAME_CONTENT_TYPE, encode_frame
from schemas.records import Headers, Records

T0 = 1_760_000_400_000
GOOD = b'{"counter":"likes:a"}'
BAD = b"not JSON"


def retry(place: str) -> Headers:
    return (("tally-retry", place.encode()),)


def fetch(start: int, *records: tuple[bytes, Headers], at_ms: int = T0) -> Fetch:
    size = len(records)
    values: list[bytes | None] = [value for value, _ in records]
    times_ms = np.full(size, at_ms, np.int64)
    headers = [found for _, found in records]
    found = Records(0, np.arange(start, start + size), times_ms, [None] * size, values, headers)
    return Fetch(start, start + size, found)


def likes(shard: Shard) -> tuple[int, int]:
    """What was counted, and what was skipped as a duplicate."""
    values = [cells.values() for cells in shard.slots.values()]
    return sum(int(v.p.sum()) for v in values), sum(int(v.duplicates.sum()) for v in values)


def test_a_refused_place_may_be_retried_once() -> None:
    shard = Shard(0)
    absorb(shard, fetch(0, (BAD, ())))
    absorb(shard, fetch(1, (GOOD, retry(f"0/0/{T0}")), (GOOD, retry(f"0/0/{T0}"))))
    assert likes(shard) == (1, 1)


def test_refusal_and_retry_in_one_fetch_are_told_in_their_order() -> None:
    shard = Shard(0)
    absorb(shard, fetch(0, (GOOD, retry(f"1/0/{T0}")), (BAD, ()), (GOOD, retry(f"1/0/{T0}"))))
    assert likes(shard) == (1, 1)


def test_what_was_counted_is_not_counted_again_by_a_retry() -> None:
    shard = Shard(0)
    absorb(shard, fetch(0, (GOOD, ()), (GOOD, retry(f"0/0/{T0}"))))
    assert likes(shard) == (1, 1)


def test_a_retry_that_is_refused_uses_its_place_up_and_is_a_new_dead_letter() -> None:
    shard = Shard(0)
    absorb(shard, fetch(0, (BAD, ())))
    [letter] = absorb(shard, fetch(1, (BAD, retry(f"0/0/{T0 - 9}")))).dead_letters
    assert (letter.offset, letter.timestamp_ms) == (1, T0 - 9)
    absorb(shard, fetch(2, (GOOD, retry(f"0/0/{T0}")), (GOOD, retry(f"1/0/{T0}"))))
    assert likes(shard) == (1, 1)


def test_a_retried_event_without_a_time_happened_when_it_was_refused() -> None:
    shard = Shard(0)
    absorb(shard, fetch(0, (BAD, ()), at_ms=T0))
    absorb(shard, fetch(1, (GOOD, retry(f"0/0/{T0}")), at_ms=T0 + 3_600_000))
    [cells] = shard.slots.values()
    assert cells.values().keys[0].startswith(f"{T0 // 60_000} ")
    late = absorb(shard, fetch(2, (GOOD, retry(f"0/0/{T0 - 90_000_000}")))).dead_letters
    assert [letter.reason for letter in late] == ["at: more than 86400 s before log time, too late"]


def test_a_retry_that_does_not_say_of_what_is_refused() -> None:
    [letter] = absorb(Shard(0), fetch(0, (GOOD, retry("soon")))).dead_letters
    assert letter.reason.startswith("tally-retry: expected offset/row/timestamp_ms")
    assert letter.value == GOOD


def test_a_retry_header_without_a_value_is_refused_like_any_other_that_does_not_say_of_what() -> (
    None
):
    null: Headers = (("tally-retry", None),)  # type: ignore[assignment]  # Kafka's clients may send it
    shard = Shard(0)
    [letter] = absorb(shard, fetch(0, (GOOD, null), (GOOD, ()))).dead_letters
    assert (letter.offset, letter.value) == (0, GOOD)
    assert letter.reason.startswith("tally-retry: expected offset/row/timestamp_ms")
    assert likes(shard) == (1, 0)


def test_the_oldest_places_are_forgotten_and_with_them_their_retries() -> None:
    places = RefusedPlaces(limit=2)
    for offset in range(4):
        places.refuse((offset, 0, T0))
        assert places.retry((offset, 0, T0), offset + 10)
    assert len(places) == 2
    assert places.first_place() == (2, 0)
    assert not places.retry((0, 0, T0), 20)
    assert places.forgotten() == [RefusedFact(0, 0, T0, 10), RefusedFact(1, 0, T0, 11)]


def test_facts_at_or_past_the_position_have_not_happened_yet() -> None:
    facts = [RefusedFact(*one) for one in ((3, 0, T0), (5, 0, T0), (5, 0, T0, 9), (12, 0, T0))]
    at_nine = RefusedPlaces(facts_at(facts, (5, 0), 9))
    assert len(at_nine) == 1
    assert at_nine.retry((5, 0, T0), 9)
    at_ten = RefusedPlaces(facts_at(facts, (5, 0), 10))
    assert not at_ten.retry((5, 0, T0), 11)
    assert at_ten.retry((5, 0, T0), 9)


def test_a_place_of_another_log_is_another_place() -> None:
    shard = Shard(0)
    absorb(shard, fetch(0, (BAD, ())))
    absorb(shard, fetch(1, (GOOD, retry(f"0/0/{T0 - 1}")), (GOOD, retry(f"0/0/{T0}"))))
    assert likes(shard) == (1, 1)


def test_a_frame_that_can_be_read_is_not_counted_again_by_a_retry_of_the_whole() -> None:
    """Its first row is refused, which is another place than the frame that could not be read."""
    is_frame: Headers = (("content-type", FRAME_CONTENT_TYPE.encode()),)
    frame = encode_frame({"counter": ["likes:a", "likes:b"], "at": [T0 - 90_000_000, T0]})
    shard = Shard(0)
    absorb(shard, fetch(0, (frame, is_frame)))
    absorb(shard, fetch(1, (frame, (*is_frame, *retry(f"0/0/{T0}")))))
    assert likes(shard) == (1, 1)


def test_a_frame_that_could_not_be_read_may_be_retried_whole_or_as_one_event() -> None:
    is_frame: Headers = (("content-type", FRAME_CONTENT_TYPE.encode()),)
    frame = encode_frame({"counter": ["likes:a", "likes:b"]})
    shard = Shard(0)
    absorb(shard, fetch(0, (BAD, is_frame), (BAD, is_frame)))
    absorb(shard, fetch(2, (frame, (*is_frame, *retry(f"0/0/{T0}")))))
    absorb(shard, fetch(3, (GOOD, retry(f"1/0/{T0}")), (GOOD, retry(f"0/0/{T0}"))))
    assert likes(shard) == (3, 1)


def test_rules_that_are_not_text_are_a_dead_letter() -> None:
    rules: Headers = (("tally-kind", b"rules"),)
    [letter] = absorb(
        Shard(0), fetch(0, (b'{"version":1,"families":{"\xff":{}}}', rules))
    ).dead_letters
    assert letter.reason.startswith("not counting rules")


def test_a_heartbeat_moves_log_time_and_position_and_is_told() -> None:
    shard = Shard(0)
    beat: Headers = (("tally-kind", b"heartbeat"),)
    absorbed = absorb(shard, fetch(0, (b"{}", beat), at_ms=T0 + 5))
    assert (absorbed.rows, absorbed.dead_letters, absorbed.heartbeats_ms) == (0, [], [T0 + 5])
    assert (shard.position, shard.log_ms) == (1, T0 + 5)
