"""Becomes a command that yields to others: `python …/yielding.py NICENESS COMMAND…`.

How nice a process is says something only to those it shares a group with. Linux makes a group of
every session (`sched_autogroup_enabled`), and a part of `tally up` is a session of its own: started
with `nice` alone it would have as much of a processor as any other part. So its group is made as
nice as it is. Where there are no such groups, as in most containers, being nice is enough.

Needs neither site-packages nor this project, so that it starts at once.
"""

import contextlib
import os
import sys
import time
from collections.abc import Sequence

GROUP = "/proc/self/autogroup"

# The kernel takes one such wish in a tenth of a second, of all who are not administrators.
WISHES_MAX = 20
WISH_EVERY_S = 0.11


def yield_to_others(niceness: int) -> None:
    """Yield from now on, with all children. Blocks for two seconds at most; never raises."""
    with contextlib.suppress(OSError):
        os.nice(niceness)
    if os.getsid(0) != os.getpid():
        # The session is somebody else's, who was not asked.
        return
    for _ in range(WISHES_MAX):
        try:
            with open(GROUP, "w") as group:  # noqa: PTH123 - pathlib takes as long as all the rest
                group.write(str(niceness))
        except BlockingIOError:
            time.sleep(WISH_EVERY_S)
        except OSError:
            return
        else:
            return


def main(arguments: Sequence[str]) -> None:
    """Becomes the command `arguments[1:]`, as nice as `arguments[0]`."""
    yield_to_others(int(arguments[0]))
    os.execvp(arguments[1], list(arguments[1:]))  # noqa: S606  no shell is wanted


if __name__ == "__main__":
    main(sys.argv[1:])
