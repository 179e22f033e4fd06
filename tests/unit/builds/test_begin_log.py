"""A replay does not begin with a log that lost what was counted in it, and knows one that did."""

import pytest

from pipeline.builds.begin import _incarnations
from pipeline.builds.positions import Reached, _newest
from pipeline.builds.rebuilds import Rebuild
from pipeline.builds.same_log import check_ends
from pipeline.control.accepted_rows import first_position
from pipeline.errors import OperatorError
from pipeline.rules import CountingRules
from pipeline.shard import Shard
from pipeline.slots import incarnate

LOST_MS = 1_794_304_800_000


def test_a_log_that_ends_before_what_was_counted_is_refused() -> None:
    before = {0: Reached(9, LOST_MS), 1: Reached(30, LOST_MS)}
    with pytest.raises(OperatorError, match=r"ends before .* \(in 1\).*accept-log"):
        check_ends(1, before, [10, 30])
    check_ends(1, before, [10, 31, 0])


def test_a_log_with_fewer_partitions_is_told_how_to_get_them_again() -> None:
    """`tally accept-log` was named alone, which accepts what there is, for ever."""
    before = {0: Reached(9, LOST_MS), 9: Reached(5, LOST_MS)}
    with pytest.raises(OperatorError, match=r"\(in 9\).*`tally partitions 10`.*accept-log"):
        check_ends(1, before, [10])


def test_an_accepted_log_is_known_as_another_one_before_anything_of_it_is_flushed() -> None:
    anew = Shard(0, 0, LOST_MS, 1, CountingRules(7))
    position = first_position(anew, 5)
    assert (position.flushed_through, position.checkpoint_through) == (-1, -1)
    assert (position.log_ms, position.rules_version) == (LOST_MS, 7)
    rows = [
        (0, "main", 1_000_000, LOST_MS),
        (0, incarnate("main", position.incarnation), position.flushed_through, position.log_ms),
    ]
    found = _newest(rows)[0]
    assert found == Reached(-1, LOST_MS, 1, LOST_MS)
    check_ends(1, {0: found}, [0])


def test_a_new_build_counts_each_shard_under_the_incarnation_that_counts_it_now() -> None:
    before = {0: Reached(9, LOST_MS), 2: Reached(30, LOST_MS, 3, LOST_MS - 1)}
    beginning = Rebuild(2, incarnations=_incarnations(before, 4)).beginning()
    assert [beginning.incarnation(shard) for shard in range(6)] == [0, 0, 3, 0, 0, 0]
