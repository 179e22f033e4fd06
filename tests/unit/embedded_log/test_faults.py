import pytest

from pipeline.embedded.log.faults import FaultPoint


def test_the_third_passage_is_the_one() -> None:
    point = FaultPoint("mid-batch:3")
    assert [point.due("mid-batch") for _ in range(5)] == [False, False, True, False, False]


def test_other_points_are_passed_by() -> None:
    point = FaultPoint("mid-batch")
    assert not point.due("after-write")
    assert point.due("mid-batch")


def test_without_a_setting_nothing_is_due() -> None:
    assert not FaultPoint("").due("mid-batch")


def test_a_name_that_does_not_exist_is_refused() -> None:
    with pytest.raises(ValueError, match="no-such-point"):
        FaultPoint("no-such-point:2")
