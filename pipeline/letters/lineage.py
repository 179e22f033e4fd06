"""Whose rows a build may be given: its own, and of builds before it those it was begun with."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipeline.builds.rebuilds import State
from pipeline.errors import OperatorError

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from pipeline.builds.rebuilds import Rebuild

FOR_EVER_MS = 2**62

Lineage = dict[int, int]
"""By build, before which log time its rows belong to the build that is asked about."""


def lineage(build: int, rebuilds: Mapping[int, Rebuild]) -> Lineage:
    """The lineage of a build: what was carried over into it may have been carried over before.

    Pure.
    """
    found = {build: FOR_EVER_MS}
    before_ms = FOR_EVER_MS
    while (rebuild := rebuilds.get(build)) is not None and rebuild.base not in {0, *found}:
        build, before_ms = rebuild.base, min(before_ms, rebuild.counts_from_ms)
        found[build] = before_ms
    return found


def check_no_heir(build: int, rebuilds: Mapping[int, Rebuild], declared: Collection[int]) -> None:
    """Raise OperatorError while a rebuild waits that was given rows of this build.

    What is put back now would be missing there. Pure.
    """
    for one in rebuilds.values():
        if one.base == build and one.build not in declared and one.state != State.DROPPED:
            raise OperatorError(
                f"build {one.build} has its earlier days from build {build} and would miss these "
                f"rows: make it live first (`tally replay --build {one.build} --swap`) or forget "
                f"it (`tally builds --drop {one.build}`), then insert"
            )
