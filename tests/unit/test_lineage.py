"""Rows of earlier builds belong to the one that was given their days, and to no other."""

from dataclasses import replace

import pytest

from pipeline.builds.rebuilds import Rebuild, State
from pipeline.errors import OperatorError
from pipeline.letters.lineage import FOR_EVER_MS, check_no_heir, lineage

CHAIN = {2: Rebuild(2, base=1, counts_from_ms=500), 4: Rebuild(4, base=2, counts_from_ms=900)}


def test_what_was_carried_over_twice_is_followed_to_where_it_was_counted() -> None:
    assert lineage(4, CHAIN) == {4: FOR_EVER_MS, 2: 900, 1: 500}
    assert lineage(2, CHAIN) == {2: FOR_EVER_MS, 1: 500}
    assert lineage(1, CHAIN) == {1: FOR_EVER_MS}
    assert lineage(3, {3: Rebuild(3)}) == {3: FOR_EVER_MS}


def test_nothing_is_put_back_while_a_rebuild_that_would_miss_it_waits() -> None:
    with pytest.raises(OperatorError, match="build 4 has its earlier days from build 2"):
        check_no_heir(2, CHAIN, {1, 2})
    check_no_heir(2, CHAIN, {1, 2, 4})
    check_no_heir(4, CHAIN, {1, 2, 4})
    check_no_heir(2, {4: replace(CHAIN[4], state=State.DROPPED)}, {1, 2})
