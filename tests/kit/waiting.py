"""Waiting for what other processes do."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.kit.processes import PATIENCE_S, wait_until


def is_alive(pid: int) -> bool:
    """False for a zombie too: its parent may be an init that never asks for it."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state not in "ZX"


def waits(holds: Callable[[], object], what: str) -> Iterator[float]:
    """Pauses to make until it holds; fails the test when that takes too long."""
    deadline_s = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < deadline_s, f"did not happen within {PATIENCE_S} s: {what}"
        yield 0.02


def eventually(holds: Callable[[], object], what: str) -> None:
    """Block until it holds; fail the test when that takes too long."""
    wait_until(holds, what, timeout_s=PATIENCE_S)
