"""Which parts ended by themselves, and not as Tally documents."""

import re
import signal
import threading
from collections.abc import Collection
from pathlib import Path

from tests.chaos.bugs import Bug
from tests.kit.processes import Process

READY = re.compile(r"(log|clickhouse|web|worker) ready|sending$")
"""What a part prints when it serves, which says nothing of its end."""


class Ends:
    """Looks at how processes ended. Thread-safe."""

    def __init__(self, folder: Path) -> None:
        """Their output is in this folder."""
        self._folder = folder
        self._lock = threading.Lock()
        self._sent: dict[str, set[signal.Signals]] = {}
        self._noted: dict[str, Process] = {}
        self._bugs: list[Bug] = []

    @property
    def bugs(self) -> list[Bug]:
        """Those of all ends that were noted."""
        with self._lock:
            return list(self._bugs)

    def sent(self, part: str, *signals: signal.Signals) -> None:
        """Somebody sends these to a part on purpose, now: its next end may be by them."""
        with self._lock:
            self._sent.setdefault(part, set()).update(signals)

    def note(self, part: str, process: Process | None) -> None:
        """Look at a process of a part if it has ended, once; before another one takes its place."""
        with self._lock:
            if process is None or process.running or self._noted.get(part) is process:
                return
            self._noted[part] = process
            why = unexplained(process.exit_code, self._sent.pop(part, ()), process.output())
            if why:
                path = process.output_path
                lines = path.read_text(errors="replace").splitlines()
                name = str(path.relative_to(self._folder))
                self._bugs.append(Bug(name, len(lines), f"{part} {why}"))


def unexplained(code: int | None, sent: Collection[signal.Signals], output: str) -> str:
    """What is odd about an end, or nothing. Pure.

    A part may end with 1 by itself if it says why; that no traceback says it is not looked at here.
    """
    if code is None or -code in sent:
        return ""
    if code == 0 and signal.SIGTERM in sent:
        return ""
    if code < 0:
        return f"was ended by {signal.Signals(-code).name}, which nobody sent"
    if code != 1:
        return f"ended by itself with {code}"
    last = (output.strip().splitlines() or [""])[-1]
    return "" if last and not READY.match(last) else "ended with 1 and did not say why"
