"""Fault points: places in the code where a test can make the process die, by name.

`TALLY_WORKER_FAULT=checkpoint-changelog:3` kills the process, as SIGKILL would, when it passes the
point of that name for the third time with something at stake. Without the variable, passing a point
costs one comparison.
"""

import os

VARIABLE = "TALLY_WORKER_FAULT"

_name, _, _count = os.environ.get(VARIABLE, "").partition(":")
_left = int(_count or 1)


def reach(point: str, at_stake: int) -> None:
    """Die here if it was asked for, saying how many cells are at stake. Nothing is no occasion."""
    global _left  # noqa: PLW0603 - a process has one death to count down to
    if point == _name and at_stake:
        _left -= 1
        if _left == 0:
            os.write(2, f"fault point {point} with {at_stake} cells at stake\n".encode())
            os._exit(137)
