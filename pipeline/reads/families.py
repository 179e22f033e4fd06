"""Which families there are."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipeline.reads import live

if TYPE_CHECKING:
    from pipeline.reads.reads import Reads

LISTED_MAX = 10_000


def names(reads: Reads) -> list[str]:
    """The families of which anything was counted, by name. Blocks; raises TryAgainError."""
    rows = reads.rows(
        "SELECT DISTINCT toString(family) AS name FROM tally.newest_windows "  # noqa: S608 - constants
        f"WHERE {live.ALL} AND name != '' ORDER BY name LIMIT {LISTED_MAX}"
    )
    return [str(name) for (name,) in rows]


def with_strict(reads: Reads) -> list[str]:
    """The same with strict families, which are in no ranking: rules name them, before anything of
    them is decided. Blocks; raises TryAgainError.
    """
    rules = reads.rules()
    named = {} if rules is None else rules.families
    strict = {name for name, family in named.items() if family.strict is not None}
    return sorted({*names(reads), *strict})
