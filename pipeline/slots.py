"""What those who only ask share with those who count, without all that counting imports. Pure."""

SLOT_MS = 60_000
"""How much log time a slot has: a cell changes only while its slot is open."""


def spill_counter(group: str) -> str:
    """The counter that stands for the rest of a family. No event can name it: its key is empty."""
    return f"{group}:"


def incarnate(replica: str, incarnation: int) -> str:
    """The replica's name in cells: what was counted before a log was lost stays apart."""
    return f"{replica}~{incarnation}" if incarnation else replica


def incarnation_of(replica: str) -> int:
    """The incarnation in a replica's name in cells."""
    return int(replica.partition("~")[2] or 0)
