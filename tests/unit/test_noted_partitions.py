"""What the leader notes of partitions, given what is noted and what Kafka has."""

import pytest

from pipeline.control.noted_partitions import GROWING_S, HEARD_S, Noted, corrected
from pipeline.reads.reads import RULES_AGE_S

YOUNG_MS = round(GROWING_S * 1000)
OLD_MS = YOUNG_MS + 1


@pytest.mark.parametrize("age_ms", [-5_000, 0, YOUNG_MS, OLD_MS])
def test_more_partitions_are_noted_at_once(age_ms: int) -> None:
    assert corrected(Noted(4, 1, age_ms), 6) == 6
    assert corrected(Noted(), 4) == 4


@pytest.mark.parametrize("age_ms", [-5_000, 0, YOUNG_MS, OLD_MS])
def test_what_is_right_stays_and_so_does_everything_while_there_is_no_topic(age_ms: int) -> None:
    assert corrected(Noted(4, 1, age_ms), 4) is None
    assert corrected(Noted(4, 1, age_ms), 0) is None


def test_fewer_are_noted_when_those_that_were_announced_did_not_come() -> None:
    assert corrected(Noted(6, 1, 0), 4) is None
    assert corrected(Noted(6, 1, YOUNG_MS), 4) is None
    assert corrected(Noted(6, 1, OLD_MS), 4) == 4


def test_partitions_are_made_after_reads_have_heard_and_before_the_leader_gives_them_up() -> None:
    assert RULES_AGE_S < HEARD_S < GROWING_S / 2
