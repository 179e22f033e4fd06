"""Cells for tests, written as plain numbers."""

import numpy as np

from pipeline.cells import CellValues


def cell_values(
    key: str, p: int, n: int, through: int, *, first: int = 0, duplicates: int = 0
) -> CellValues:
    """One cell."""
    return CellValues([key], *(np.array([v]) for v in (p, n, through, first, duplicates)))
