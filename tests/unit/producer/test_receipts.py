"""Receipts tell what became of increments, as soon as it is known."""

import asyncio
import threading

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.errors import BadInputError
from pipeline.producer.receipts import (
    NotStoredError,
    Outcome,
    Places,
    Receipt,
    UnknownDeliveryError,
)


def outcome_of(*frame_of_row: int) -> Outcome:
    outcome = Outcome()
    outcome.packed(np.array(frame_of_row, np.int64), max(frame_of_row) + 1)
    return outcome


def test_a_receipt_tells_the_place_of_its_own_frame() -> None:
    outcome = outcome_of(0, 1, 1)
    outcome.stored(1, partition=5, offset=77)

    assert Receipt(outcome, 1, 3).places(0) == {5: 77}
    assert not Receipt(outcome, 0, 1).is_settled
    with pytest.raises(TimeoutError):
        Receipt(outcome, 0, 1).places(0)


def test_nothing_is_known_before_packing() -> None:
    outcome = Outcome()

    assert not outcome.is_settled
    with pytest.raises(TimeoutError):
        Receipt(outcome, 0, 1).places(0)


def test_the_last_offset_of_each_partition_counts() -> None:
    outcome = outcome_of(0, 1, 2)
    outcome.stored(0, 3, 10)
    outcome.stored(1, 3, 11)
    outcome.stored(2, 4, 2)

    assert Receipt(outcome, 0, 3).places(0) == {3: 11, 4: 2}
    assert outcome.is_settled


def test_what_is_unknown_or_never_sent_is_raised_to_its_own_rows_only() -> None:
    outcome = outcome_of(0, 1, 2)
    outcome.stored(0, 3, 10)
    outcome.failed(1, UnknownDeliveryError("timed out"))
    outcome.failed(2, NotStoredError("closed"))

    assert Receipt(outcome, 0, 1).places(0) == {3: 10}
    with pytest.raises(UnknownDeliveryError, match="timed out"):
        Receipt(outcome, 1, 2).places(0)
    with pytest.raises(NotStoredError, match="closed"):
        Receipt(outcome, 2, 3).places(0)
    assert outcome.is_settled


def test_never_sent_is_said_only_if_nothing_was_sent() -> None:
    outcome = outcome_of(0, 1, 2, 3)
    outcome.stored(0, 3, 10)
    outcome.failed(1, NotStoredError("closed"))
    outcome.failed(2, NotStoredError("closed"))
    outcome.failed(3, UnknownDeliveryError("timed out"))

    with pytest.raises(NotStoredError, match="closed"):
        Receipt(outcome, 1, 3).places(0)
    with pytest.raises(UnknownDeliveryError, match="a part of it is stored"):
        Receipt(outcome, 0, 2).places(0)
    with pytest.raises(UnknownDeliveryError, match="timed out"):
        Receipt(outcome, 1, 4).places(0)
    with pytest.raises(UnknownDeliveryError, match="a part of it is stored"):
        Receipt.of([Receipt(outcome, 1, 2), Receipt(outcome, 0, 1)]).places(0)


def test_each_who_asks_gets_an_error_of_their_own() -> None:
    outcome = outcome_of(0)
    outcome.failed(0, UnknownDeliveryError("timed out"))
    receipt = Receipt(outcome, 0, 1)

    raised = []
    for _ in range(2):
        with pytest.raises(UnknownDeliveryError) as told:
            receipt.places(0)
        raised.append(told.value)
    assert raised[0] is not raised[1]


def test_who_waits_is_told_once_when_the_last_of_its_frames_is_known() -> None:
    outcome, told = Outcome(), list[str]()
    outcome.when_known(0, 2, lambda: told.append("both"))
    outcome.when_known(1, 2, lambda: told.append("second"))
    outcome.packed(np.array([0, 1]), 2)
    assert told == []
    outcome.stored(1, 0, 5)
    assert told == ["second"]
    outcome.stored(0, 0, 6)
    assert told == ["second", "both"]


def test_a_refused_batch_is_refused_to_all_its_rows() -> None:
    outcome = Outcome()
    outcome.refused(3, NotStoredError("closed"))

    for row in range(3):
        with pytest.raises(NotStoredError):
            Receipt(outcome, row, row + 1).places(0)


def test_one_receipt_for_several() -> None:
    first, second = outcome_of(0), outcome_of(0)
    receipt = Receipt.of([Receipt(first, 0, 1), Receipt(second, 0, 1)])
    first.stored(0, 1, 5)
    assert not receipt.is_settled
    second.stored(0, 1, 9)

    assert receipt.places(0) == {1: 9}
    assert Receipt.of([]).places(0) == {}


def test_it_can_be_awaited() -> None:
    async def wait() -> None:
        known, later, unknown = outcome_of(0), outcome_of(0), outcome_of(0)
        known.stored(0, 1, 5)
        unknown.failed(0, UnknownDeliveryError("timed out"))
        timer = threading.Timer(0.05, later.stored, (0, 2, 6))
        timer.start()
        both = Receipt.of([Receipt(known, 0, 1), Receipt(later, 0, 1)])
        assert await both == {1: 5, 2: 6}
        with pytest.raises(UnknownDeliveryError):
            await Receipt(unknown, 0, 1)

    asyncio.run(wait())


def test_a_waiting_thread_is_woken() -> None:
    outcome = outcome_of(0)
    timer = threading.Timer(0.05, outcome.stored, (0, 2, 6))
    timer.start()

    assert Receipt(outcome, 0, 1).places(10) == {2: 6}


@given(st.dictionaries(st.integers(0, 4095), st.integers(0, 2**53), min_size=1, max_size=20))
def test_places_as_text(places: dict[int, int]) -> None:
    assert Places.parse(str(Places(places))) == places


@pytest.mark.parametrize(
    "text", ["1", "1:", ":1", "1:2,", "1:2 ", "-1:2", "1:2:3", "a:b", "\u0661:\u0662"]
)
def test_what_is_no_receipt_is_refused(text: str) -> None:
    with pytest.raises(BadInputError, match="partition:offset"):
        Places.parse(text)
