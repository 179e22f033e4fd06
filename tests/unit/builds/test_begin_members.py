"""A log without its beginning cannot tell who was in."""

import pytest

from pipeline.builds.begin import _check_members
from pipeline.errors import OperatorError
from pipeline.rules import CountingRules, FamilyRules

ONCE = FamilyRules(once_per_member=True)


def test_what_was_trimmed_is_not_counted_anew_if_members_ever_counted_once() -> None:
    now_off = [CountingRules(1, families={"likes": ONCE}), CountingRules(2)]
    with pytest.raises(OperatorError, match=r"who was counted by then .* \(likes\)"):
        _check_members(1_760_000_400_000, now_off)
    with pytest.raises(OperatorError, match="all that are not named"):
        _check_members(1_760_000_400_000, [CountingRules(1, ONCE)])


def test_a_whole_log_and_one_without_such_families_are() -> None:
    _check_members(0, [CountingRules(1, ONCE)])
    _check_members(1_760_000_400_000, [CountingRules(1)])
