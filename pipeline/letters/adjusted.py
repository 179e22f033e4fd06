"""Puts back adjustments: each is a row of its own, which nothing is added up from."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipeline.letters.insert import refused_still

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pipeline.letters.insert import RowTable
    from pipeline.letters.rows import SetAsideAdjustment


class AdjustmentRows:
    """A PutsBack for rows of tally.adjustments, which are kept for ever."""

    def __init__(self, table: RowTable) -> None:
        self._table = table

    def put_back(self, rows: Sequence[SetAsideAdjustment]) -> dict[int, str]:
        """As the protocol says."""
        return refused_still(self._table, rows, range(len(rows)))
