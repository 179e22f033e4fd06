"""What those who only ask share with those who count, without all that counting imports. Pure."""

SLOT_MS = 60_000
"""How much log time a slot has: a cell changes only while its slot is open."""


def spill_counter(group: str) -> str:
    """The counter that stands for the rest of a family. No event can name it: its key is empty."""
    return f"{group}:"
