"""What is exchanged: the tables that counts are made of, and how their rows are divided."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Table:
    """One table of the database `tally`, with a column `build`.

    Its rows merge: one that is copied twice, late, or before a greater one changes nothing.
    `share_by` is what they are divided by when they are too many to be copied at once.
    """

    name: str
    share_by: str


# Coarser ones come first: whoever lets go of minutes has their hours in what was copied before.
TABLES = (
    Table("cells_life", "counter"),
    Table("frequency_life", "bucket"),
    *(
        Table(f"{kind}_{grain}", share_by)
        for grain in ("1d", "1h", "1m")
        for kind, share_by in (
            ("cells", "counter"),
            ("distinct", "counter"),
            ("frequency", "bucket"),
            ("heavy", "slot" if grain == "1m" else "counter"),
        )
    ),
    Table("adjustments", "counter"),
    Table("newest_windows", "family"),
    Table("frequency_widths", "family"),
)
"""In the order in which they are copied. Scores and positions are each cluster's own."""

BY_NAME = {table.name: table for table in TABLES}
