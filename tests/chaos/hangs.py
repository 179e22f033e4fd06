"""What does not end though it should, and though nothing is done to the servers it may wait for."""

import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from tests.chaos.site import Site
from tests.kit.processes import SHOWN_LINES, Process

SERVERS = ("log", "clickhouse")
"""What all others, and commands, may wait for."""

HANGS_S = 60.0
"""So long it may take while all is well. A worker that is asked to end waits 20 s for its last
checkpoint and 10 s for its deciders; on a busy machine all may take twice as long."""

LOOK_S = 0.2


class HangError(Exception):
    """Something did not end, and no server that was away explains it."""


class Hangs:
    """Waits for ends, and knows what is done to a site meanwhile. Thread-safe."""

    def __init__(self, site: Site, timeout_s: float = HANGS_S) -> None:
        """What takes longer than `timeout_s` while all is well hangs."""
        self.timeout_s = timeout_s
        self._site = site
        self._in_trouble: Counter[str] = Counter()
        self._lock = threading.Lock()

    @contextmanager
    def trouble(self, part: str) -> Iterator[None]:
        """While the block runs, a part is stopped, stalled, delayed or without room."""
        with self._lock:
            self._in_trouble[part] += 1
        try:
            yield
        finally:
            with self._lock:
                self._in_trouble[part] -= 1

    def stop(self, part: str, process: Process) -> None:
        """Ask a part to end, and block until it has. Raises HangError if it does not."""
        process.send(signal.SIGTERM)
        self.wait(process, part)

    def wait(self, process: Process, what: str) -> int:
        """Block until a part or a command has ended; the exit code.

        While something is done to it, or a server that it may wait for is away or in trouble,
        nothing counts. Raises HangError, with what was seen, if it still runs after so long in
        which all was well; it is killed then.
        """
        servers = () if what in SERVERS else SERVERS
        began_s = well_since_s = time.monotonic()
        while (code := process.exit_code) is None:
            now_s = time.monotonic()
            if not self._is_well(what, *servers) or not all(map(self._site.serves, servers)):
                well_since_s = now_s
            elif now_s - well_since_s > self.timeout_s:
                process.kill()
                shown = "\n".join(process.output().splitlines()[-SHOWN_LINES:])
                raise HangError(
                    f"{what} had not ended after {now_s - began_s:.1f} s, in the last "
                    f"{now_s - well_since_s:.1f} s of which nothing was done to "
                    f"{', '.join((what, *servers))}; the load of the machine was "
                    f"{os.getloadavg()[0]:.1f}; it wrote:\n{shown}"
                )
            time.sleep(LOOK_S)
        return code

    def _is_well(self, *names: str) -> bool:
        with self._lock:
            return not any(self._in_trouble[name] for name in names)
