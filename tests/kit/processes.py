"""Start a real process, wait for what it says, stop it by its id, show its output on failure."""

import os
import re
import signal
import socket
import subprocess
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Self

from tests.kit.tied import start_tied

POLL_S = 0.02
PATIENCE_S = 60.0
"""Long enough for a machine on which other tests run; only a test that fails takes so long."""

SHOWN_LINES = 40
HELD_MAX = 200
"""Ports that one process of tests holds; the oldest is let go, whose test is over."""

_HOLDERS: deque[int] = deque()
"""As the numbers of files, which nobody closes by chance."""


class ProcessFailedError(AssertionError):
    """A process did not do what the test waited for; the text ends with what it last wrote."""


def wait_until(
    condition: Callable[[], object],
    what: str,
    *,
    timeout_s: float = PATIENCE_S,
    poll_s: float = POLL_S,
) -> None:
    """Block until `condition()` is true; raise AssertionError naming `what` after `timeout_s`."""
    began_s = time.monotonic()
    while not condition():
        waited_s = time.monotonic() - began_s
        if waited_s > timeout_s:
            raise AssertionError(f"waited {timeout_s:g} s in vain: {what}")
        time.sleep(_pause_s(waited_s, poll_s))


def _pause_s(waited_s: float, poll_s: float) -> float:
    """Who has waited long looks less often: a look costs the servers that it waits for."""
    return max(poll_s, min(waited_s / 20, 0.2))


def free_port() -> int:
    """A loopback port for a server that cannot report one it chose; nobody else is given it.

    A socket of this process holds it, bound and never listening: who asks the system for any port
    gets another, and who names this one with SO_REUSEADDR, as servers do, may listen there.
    """
    with socket.socket() as holder:
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        holder.bind(("127.0.0.1", 0))
        port: int = holder.getsockname()[1]
        _HOLDERS.append(holder.detach())
    if len(_HOLDERS) > HELD_MAX:
        os.close(_HOLDERS.popleft())
    return port


def resident_bytes(pid: int) -> int:
    """Memory the process holds in RAM now; raises FileNotFoundError when it is gone."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


class Process:
    """One child process whose stdout and stderr go to one file; it ends with this process.

    As a context manager it ends the child on the way out, whatever happened inside.
    """

    def __init__(
        self,
        command: Sequence[str | Path],
        *,
        output_path: Path,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
    ) -> None:
        """Start it. `env` is added to this process's environment. Raises OSError if it cannot."""
        self.command = [str(part) for part in command]
        self.output_path = output_path
        with output_path.open("ab") as output:
            self._start_of_output = output.tell()
            self._child = start_tied(
                self.command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env={**os.environ, **(env or {})},
                cwd=cwd,
            )

    @property
    def pid(self) -> int:
        return self._child.pid

    @property
    def exit_code(self) -> int | None:
        """None while it runs; negative for the signal that ended it."""
        return self._child.poll()

    @property
    def running(self) -> bool:
        return self.exit_code is None

    def output(self) -> str:
        """All it wrote since this start."""
        with self.output_path.open("rb") as output:
            output.seek(self._start_of_output)
            return output.read().decode(errors="replace")

    def wait_for_line(self, pattern: str, *, timeout_s: float = PATIENCE_S) -> re.Match[str]:
        """Block until a line matches; raise ProcessFailedError if it ends or takes too long."""
        compiled = re.compile(pattern, re.MULTILINE)
        began_s = time.monotonic()
        while True:
            ended = not self.running
            if found := compiled.search(self.output()):
                return found
            if ended:
                raise self._failure(f"ended with {self.exit_code} before writing {pattern!r}")
            waited_s = time.monotonic() - began_s
            if waited_s > timeout_s:
                raise self._failure(f"did not write {pattern!r} within {timeout_s:g} s")
            time.sleep(_pause_s(waited_s, POLL_S))

    def wait(self, *, timeout_s: float = PATIENCE_S) -> int:
        """Block until it ends by itself; raise ProcessFailedError after `timeout_s`."""
        try:
            return self._child.wait(timeout_s)
        except subprocess.TimeoutExpired:
            raise self._failure(f"did not end within {timeout_s:g} s") from None

    def stop(self, *, timeout_s: float = PATIENCE_S) -> int:
        """Ask it to end and block until it has; raise ProcessFailedError if it had to be killed."""
        self.send(signal.SIGTERM)
        try:
            return self._child.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.kill()
            raise self._failure(f"ignored SIGTERM for {timeout_s:g} s") from None

    def kill(self) -> None:
        """End it with SIGKILL and block until it is gone; nothing happens if it is gone already."""
        self.send(signal.SIGKILL)
        self._child.wait(PATIENCE_S)

    def send(self, signal_number: signal.Signals) -> None:
        """Send one signal to this process id; nothing happens if it is gone."""
        if self.running:
            self._child.send_signal(signal_number)

    def _failure(self, what: str) -> ProcessFailedError:
        shown = "\n".join(self.output().splitlines()[-SHOWN_LINES:])
        return ProcessFailedError(f"`{' '.join(self.command)[:200]}` {what}; it wrote:\n{shown}")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
