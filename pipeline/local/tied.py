"""Becomes a command that dies with its parent: `python -m pipeline.local.tied PARENT_PID COMMAND…`.

A supervisor's children must not outlive it, even when it is killed with SIGKILL and cannot act. So
each is started through this module, which asks the kernel to kill it with its parent
(PR_SET_PDEATHSIG, which survives exec) and then becomes the command. Doing that in a `preexec_fn`
would run Python between fork and exec of a process with threads, which can deadlock; a lifeline
pipe would need every part to watch it. PR_SET_PDEATHSIG is Linux's own: elsewhere a killed
supervisor leaves its parts running, and the next one finds their ports taken.
"""

import ctypes
import os
import signal
import sys
from collections.abc import Sequence

_PR_SET_PDEATHSIG = 1


def main(arguments: Sequence[str]) -> None:
    """Becomes the command `arguments[1:]`, tied to the life of its parent `arguments[0]`."""
    parent = int(arguments[0])
    if sys.platform == "linux":
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0) != 0:
            raise OSError(ctypes.get_errno(), "prctl")
    # The parent may have died before the request; then nobody would ever signal this process.
    if os.getppid() != parent:
        sys.exit(1)
    os.execvp(arguments[1], list(arguments[1:]))  # noqa: S606  no shell is wanted


if __name__ == "__main__":
    main(sys.argv[1:])
