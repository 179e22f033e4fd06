"""Fault points: places in the code where a test can make the process die, by name.

`TALLY_WORKER_FAULT=checkpoint-changelog:3` kills the process, as SIGKILL would, when it reaches the
point of that name for the third time. Without the variable, passing a point costs one comparison.
"""

import os

VARIABLE = "TALLY_WORKER_FAULT"

_name, _, _count = os.environ.get(VARIABLE, "").partition(":")
_left = int(_count or 1)


def reach(point: str) -> None:
    """Die here if it was asked for."""
    global _left  # noqa: PLW0603 - a process has one death to count down to
    if point == _name:
        _left -= 1
        if _left == 0:
            os._exit(137)
