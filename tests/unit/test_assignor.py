"""Partitions are given out that source and changelog both have."""

from typing import Any

import pytest

from pipeline.assignor import EvenAssignor

SOURCE, CHANGELOG, OTHER = "tally.increments", "tally-build-3-cells-changelog", "other"


class Cluster:
    """As a client knows it."""

    def __init__(self, sizes: dict[str, int]) -> None:
        self._sizes = sizes

    def partitions_for_topic(self, name: str) -> set[int] | None:
        return set(range(self._sizes[name])) if name in self._sizes else None


def groups(sizes: dict[str, int]) -> dict[int, list[set[str]]]:
    names = [SOURCE, CHANGELOG, OTHER]
    subscriptions = {"one": names, "two": names}
    found: Any = EvenAssignor._get_copartitioned_groups(set(names), Cluster(sizes), subscriptions)
    return {size: list(together) for size, together in found.items()}


@pytest.mark.parametrize(("source", "changelog"), [(5, 5), (5, 9), (9, 5)])
def test_both_are_given_out_together_as_far_as_both_have_them(source: int, changelog: int) -> None:
    found = groups({SOURCE: source, CHANGELOG: changelog, OTHER: 2})
    assert found == {5: [{SOURCE, CHANGELOG}], 2: [{OTHER}]}


def test_a_topic_that_is_missing_is_left_out_as_ever() -> None:
    assert groups({SOURCE: 4}) == {4: [{SOURCE}]}
