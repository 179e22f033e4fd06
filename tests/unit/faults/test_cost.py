"""What a fault cost, out of the times of single increments and reads."""

import pytest

from benchmarks._faults_cost import Answer, Cost, Read, cost, longest_without


def read(began_s: float, took_s: float, answer: Answer) -> Read:
    return Read(began_s, began_s + took_s, answer)


WHOLE, INCOMPLETE, NONE = Answer.WHOLE, Answer.INCOMPLETE, Answer.NONE


def test_a_reader_with_whole_answers_is_never_without_one_however_slow_they_are() -> None:
    assert longest_without([read(0, 3, WHOLE), read(1, 0.1, WHOLE)]) == 0
    assert longest_without([]) == 0


def test_from_the_first_read_without_an_answer_to_the_end_of_the_next_that_has_one() -> None:
    reads = [read(0, 0.1, WHOLE), read(1, 4, NONE), read(2, 0.1, INCOMPLETE), read(6, 0.5, WHOLE)]
    assert longest_without(reads) == 5.5


def test_of_several_spans_the_longest_is_told_and_one_that_does_not_end_counts() -> None:
    short = [read(1, 0.1, NONE), read(2, 0.1, WHOLE)]
    longer = [read(5, 0.1, INCOMPLETE), read(9, 2.0, NONE)]
    assert longest_without(short) == pytest.approx(1.1)
    assert longest_without([*short, *longer]) == pytest.approx(6.0)


def test_reads_are_taken_in_the_order_they_began_not_in_which_they_ended() -> None:
    late = read(1, 4, NONE)
    assert longest_without([read(0, 0.1, WHOLE), read(2, 0.1, WHOLE), late]) == pytest.approx(1.1)


def test_only_what_was_sent_and_asked_from_its_begin_on_is_the_faults() -> None:
    found = cost(
        "kill log",
        10.0,
        20.0,
        counted=[(9.9, 50.0), (10.0, 3.0), (12.0, 2.0)],
        acknowledged=[(9.0, 40.0), (11.0, 0.5)],
        reads=[read(9, 1, NONE), read(11, 1, NONE), read(13, 1, INCOMPLETE), read(14, 1, WHOLE)],
    )
    assert found == Cost("kill log", 3.0, 0.5, 3, 1, 1, 4.0, 10.0)


def test_where_nothing_was_sent_or_read_nothing_was_found_out() -> None:
    some = [(1.0, 1.0)]
    with pytest.raises(ValueError, match="nothing was read"):
        cost("kill log", 0.0, 2.0, counted=some, acknowledged=some, reads=[])
    with pytest.raises(ValueError, match="empty"):
        cost("kill log", 0.0, 2.0, counted=[], acknowledged=some, reads=[read(1, 1, WHOLE)])
