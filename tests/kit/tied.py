"""Processes that end with this one, even when it is killed and cannot act.

The kernel ends such a process with the *thread* that started it. Tests start some from threads that
end long before, so one thread, which never ends, starts all.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from pipeline.local import tied

_starter = ThreadPoolExecutor(1, thread_name_prefix="starter")


def start_tied(command: Sequence[str], **options: Any) -> "subprocess.Popen[Any]":
    """As subprocess.Popen, which takes the options; the command takes over the process's id.

    Raises FileNotFoundError for a command that does not exist.
    """
    if shutil.which(command[0]) is None:
        raise FileNotFoundError(f"no such command: {command[0]}")
    # Neither site-packages nor this project are needed: half of the time to start.
    through = [sys.executable, "-I", "-S", tied.__file__, str(os.getpid())]
    return _starter.submit(lambda: subprocess.Popen([*through, *command], **options)).result()
