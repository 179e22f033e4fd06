"""The rows of a fetch whose families count each member once. Pure.

What is done here is what `Shard.absorb_rows` does row by row.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.once.members import refusal
from pipeline.placing import Misplaced

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from pipeline.cells import Int64Column
    from pipeline.once.members import Members
    from pipeline.rules import CountingRules

    BoolColumn = NDArray[np.bool_]

_NONE = np.zeros(0, np.int64)


@dataclass(frozen=True, slots=True)
class OnceRows:
    """Which rows are of such families: those that may count, and those that are refused."""

    counting: Int64Column
    refused: Int64Column
    in_filter: BoolColumn
    """Of all rows: whether the family keeps its members in a filter."""


def which_once(rules: CountingRules, columns: pa.Table, placed: BoolColumn) -> OnceRows:
    """The rows, among those that log time lets in, whose families count each member once."""
    if not rules.has_once_per_member:
        return OnceRows(_NONE, _NONE, np.zeros(0, np.bool_))
    encoded = columns["counter"].combine_chunks().dictionary_encode()
    families = [rules.of(name) for name in encoded.dictionary.to_pylist()]
    codes = encoded.indices.to_numpy()
    once = np.array([family.once_per_member for family in families], np.bool_)[codes] & placed
    in_filter = np.array([bool(family.once_per_error) for family in families], np.bool_)[codes]
    delta = columns["delta"].to_numpy()
    fits = (delta == 1) | ((delta == -1) & ~in_filter)
    fits &= pc.is_valid(columns["member"]).to_numpy()
    return OnceRows(np.flatnonzero(once & fits), np.flatnonzero(once & ~fits), in_filter)


def refused_once(rules: CountingRules, columns: pa.Table, once: OnceRows) -> Iterator[Misplaced]:
    """The rows that are refused, each with its place and its reason."""
    if len(once.refused):
        places = columns.select(["offset", "row"]).take(pa.array(once.refused))
        fields = (column.to_pylist() for column in places.columns)
        yield from map(Misplaced, *fields, _reasons(rules, columns, once))


def refusals(rules: CountingRules | None, columns: pa.Table) -> list[tuple[int, str]]:
    """Which increments (FRAME_SCHEMA) these rules refuse whenever they come, each with why."""
    if rules is None or not rules.has_once_per_member:
        return []
    once = which_once(rules, columns, np.ones(columns.num_rows, np.bool_))
    return list(zip(once.refused.tolist(), _reasons(rules, columns, once), strict=True))


def _reasons(rules: CountingRules, columns: pa.Table, once: OnceRows) -> list[str]:
    chosen = columns.select(["counter", "delta", "member"]).take(pa.array(once.refused))
    fields = zip(*(column.to_pylist() for column in chosen.columns), strict=True)
    return [
        refusal(rules.of(counter), delta, member) or "refused" for counter, delta, member in fields
    ]


def repeats(
    rules: CountingRules,
    members: Members,
    columns: pa.Table,
    once: OnceRows,
    duplicate: BoolColumn,
) -> None:
    """Mark as duplicates, too, the rows that bring a member to where it is already.

    Those whose id had been counted are passed over.
    """
    asking = once.counting[~duplicate[once.counting]]
    if not len(asking):
        return
    exactly = asking[~once.in_filter[asking]]
    chosen = columns.select(["counter", "member", "delta", "offset"]).take(pa.array(exactly))
    duplicate[exactly] = ~members.count_many(
        chosen["counter"].to_pylist(),
        chosen["member"].to_pylist(),
        chosen["delta"].to_numpy(),
        chosen["offset"].to_numpy(),
    )
    if len(exactly) < len(asking):
        _repeats_in_filters(rules, members, columns, asking[once.in_filter[asking]], duplicate)


def _repeats_in_filters(
    rules: CountingRules,
    members: Members,
    columns: pa.Table,
    asking: Int64Column,
    duplicate: BoolColumn,
) -> None:
    chosen = columns.select(["counter", "member"]).take(pa.array(asking))
    counters, names = chosen["counter"].to_pylist(), chosen["member"].to_pylist()
    families: dict[str, list[int]] = {}
    for number, counter in enumerate(counters):
        families.setdefault(counter.partition(":")[0], []).append(number)
    for family, numbers in families.items():
        duplicate[asking[numbers]] = ~members.add_many(
            family,
            rules.of(f"{family}:").once_per_error,
            [counters[number] for number in numbers],
            [names[number] for number in numbers],
        )
