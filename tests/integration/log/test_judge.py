"""The judge of the restart and fault tests is not blind: each kind of damage has its words."""

from array import array

import pytest
from confluent_kafka import Message

from tests.integration.log.clients import Clients
from tests.integration.log.streams import Stream, problems


def record(number: int, offset: int) -> Message:
    return Message(value=b"s %d padding" % number, offset=offset)


@pytest.fixture
def stream() -> Stream:
    """Ten records that were acknowledged at offsets 100 to 109; nothing is started."""
    made = Stream(Clients("127.0.0.1:1"), "topic")
    made.numbers, made.offsets = array("q", range(10)), array("q", range(100, 110))
    return made


def test_the_judge_finds_nothing_where_nothing_is_wrong(stream: Stream) -> None:
    assert problems(stream, [record(n, 100 + n) for n in range(10)]) == []


def test_the_judge_sees_missing_repeated_moved_and_disordered_records(stream: Stream) -> None:
    sound = [record(n, 100 + n) for n in range(10)]
    assert problems(stream, sound[:-1]) == ["9 is missing, acknowledged at 109"]
    assert "9 is there 2 times" in problems(stream, [*sound, record(9, 110)])
    moved = [*sound[:-1], record(9, 111)]
    assert problems(stream, moved) == ["9 is at [111], acknowledged at 109"]
    swapped = [*sound[:8], record(9, 109), record(8, 108)]
    assert problems(stream, swapped) == ["the order is not that of sending"]


def test_the_judge_of_a_compacted_topic_asks_for_the_last_of_each_key(stream: Stream) -> None:
    stream.keys = 5
    assert problems(stream, [record(n, 100 + n) for n in range(5, 10)]) == []
    assert problems(stream, [record(n, 100 + n) for n in range(5, 9)]) == [
        "9 is missing, acknowledged at 109"
    ]
