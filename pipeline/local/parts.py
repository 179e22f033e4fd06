"""The parts a supervisor runs: what they are, what they wrote, and how patient it is with them."""

import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

LOG_BYTES_MAX = 8 * 1024 * 1024


class Output:
    """What a part wrote to stdout and stderr: a file, so that neither side waits for the other."""

    def __init__(self, path: Path, bytes_max: int = LOG_BYTES_MAX) -> None:
        self.path = path
        self._bytes_max = bytes_max
        self._start = 0
        self._searched: dict[str, int] = {}
        self._heard: set[str] = set()

    def open(self) -> int:
        """A descriptor to append to, which the caller closes.

        A file grown past `bytes_max` is put aside as NAME.log.1 first: at starts only, since a
        running part holds the file open.
        """
        self.path.parent.mkdir(parents=True, exist_ok=True)
        if self.path.exists() and self.path.stat().st_size > self._bytes_max:
            self.path.replace(self.path.with_name(self.path.name + ".1"))
        descriptor = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        self._start = os.fstat(descriptor).st_size
        self._searched.clear()
        self._heard.clear()
        return descriptor

    def said(self, prefix: str) -> bool:
        """Whether the present run wrote a whole line that starts so. Reads each byte once.

        What was heard stays so, whatever becomes of the file. Raises OSError.
        """
        if prefix in self._heard:
            return True
        with self.path.open("rb") as file:
            searched = self._searched.setdefault(prefix, self._start)
            if os.fstat(file.fileno()).st_size < searched:
                # Somebody has emptied it: what is in it now is the present run's.
                searched = self._searched[prefix] = 0
            file.seek(searched)
            for line in file:
                if line.startswith(prefix.encode()) and line.endswith(b"\n"):
                    self._heard.add(prefix)
                    return True
                if line.endswith(b"\n"):
                    self._searched[prefix] += len(line)
        return False

    def since_start(self, bytes_max: int = 65_536) -> list[str]:
        """The lines of the present run, or of its last `bytes_max` if it wrote more.

        None where the file is gone: people tidy up.
        """
        try:
            with self.path.open("rb") as file:
                end = file.seek(0, os.SEEK_END)
                file.seek(max(self._start if self._start <= end else 0, end - bytes_max))
                return file.read(bytes_max).decode("utf-8", "replace").splitlines()
        except OSError:
            return []


Probe = Callable[[Output], Awaitable[bool]]
"""True when the part does its work. May take a few seconds; may raise OSError, which means no."""


@dataclass(frozen=True)
class Part:
    """One process. `environment` is added to the supervisor's own, and may hold secrets."""

    name: str
    argv: Sequence[str]
    address: str
    probe: Probe
    ready_timeout_s: float = 30.0
    stop_timeout_s: float = 15.0
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)


@dataclass(frozen=True)
class News:
    """A change of a part's state, for people."""

    part: Part
    state: str
    detail: str = ""
    last_lines: tuple[str, ...] = ()

    def line(self) -> str:
        return (
            f"{self.part.name:<11} {self.part.address:<17} {self.state:<9} {self.detail}".rstrip()
        )


@dataclass(frozen=True)
class Pace:
    """How patient the supervisor is.

    The pause before a restart doubles up to `pause_max_s`, and starts over after a part stayed up
    for `steady_s`. A part that dies before it was ever healthy is given up after `first_starts`.
    """

    probe_every_s: float = 0.1
    probe_timeout_s: float = 5.0
    watch_every_s: float = 5.0
    misses_max: int = 3
    pause_min_s: float = 0.5
    pause_max_s: float = 30.0
    steady_s: float = 60.0
    first_starts: int = 3

    def pause_s(self, previous_s: float, up_s: float) -> float:
        if up_s >= self.steady_s or previous_s == 0.0:
            return self.pause_min_s
        return min(previous_s * 2, self.pause_max_s)
