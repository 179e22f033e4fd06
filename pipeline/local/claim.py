"""Holding a folder for one process, so that no two write into it."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pipeline.errors import OperatorError


@contextmanager
def claimed(folder: Path, lock: str, *, unusable: str, in_use: str) -> Iterator[None]:
    """Hold the folder by its file `lock`, making both if need be.

    Raises OperatorError with the text `unusable`, in which {why} stands for the reason, or
    `in_use`, in which {holder} stands for the process that has it. The kernel frees the lock with
    the process, however it ends. The file stays: removing it would let two processes hold locks on
    two files of the same name.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        file = (folder / lock).open("a+")
    except OSError as error:
        raise OperatorError(unusable.replace("{why}", str(error.strerror))) from error
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            file.seek(0)
            holder = file.read().strip() or "another"
            raise OperatorError(in_use.replace("{holder}", holder)) from error
        file.truncate(0)
        file.write(f"{os.getpid()}\n")
        file.flush()
        yield
