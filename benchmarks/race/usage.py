"""What a contestant costs, seen from outside: processors' seconds and memory out of /proc."""

from __future__ import annotations

import os
import resource
import threading
import time
from bisect import bisect_right
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

TICKS_PER_S = os.sysconf("SC_CLK_TCK")
EVERY_S = 0.2
SERVERS = frozenset({"redis-server"})
"""Programs that a contestant may start beside itself, and that are told apart from it."""


@dataclass(frozen=True, slots=True)
class Seen:
    """Processors' seconds up to a time of day: of the contestant's processes, of servers by name.

    Names are those of `watched`, and of SERVERS for what the contestant itself started of them.
    """

    at_s: float
    own_s: float
    servers_s: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Cost:
    """Of one turn: processors' seconds while its clock ran, and each process's greatest memory."""

    own_s: float
    servers_s: Mapping[str, float]
    own_mb: float
    servers_mb: Mapping[str, float]


def seconds_between(points: Sequence[tuple[float, float]], begin_s: float, end_s: float) -> float:
    """How much a growing figure grew between two times, with straight lines between the points.

    Before the first and after the last point it is level. Raises ValueError without points.
    """
    if not points:
        raise ValueError("nothing was seen")

    def at(when_s: float) -> float:
        after = bisect_right(points, when_s, key=lambda point: point[0])
        if after == 0:
            return points[0][1]
        if after == len(points):
            return points[-1][1]
        (left_s, low), (right_s, high) = points[after - 1], points[after]
        return low + (high - low) * (when_s - left_s) / (right_s - left_s)

    return at(end_s) - at(begin_s)


class Usage:
    """Looks at a contestant and the servers it uses, a few times a second, until told to stop.

    `watched` are servers by name and process id. The contestant must be a child of this process,
    and the only one that ends meanwhile: what it used until its very end is told by the kernel.
    """

    def __init__(self, pid: int, watched: Mapping[str, int]) -> None:
        self._pid = pid
        self._watched = dict(watched)
        self._seen: list[Seen] = []
        self._peak_kb: dict[tuple[str, int], int] = {}
        self._children_s = _children_s()
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """After the contestant was waited for: one last look."""
        self._is_over.set()
        self._thread.join()
        servers = dict(self._seen[-1].servers_s) if self._seen else {}
        started = sum(spent for name, spent in servers.items() if name in SERVERS)
        servers |= {name: cpu_s(pid) for name, pid in self._watched.items()}
        self._note(_children_s() - self._children_s - started, servers)

    def cost(self, begin_s: float, end_s: float) -> Cost:
        """Between two times of day; memory is the greatest there was until the end."""
        names = sorted({name for seen in self._seen for name in seen.servers_s})
        servers = {
            name: seconds_between(
                [(seen.at_s, seen.servers_s.get(name, 0.0)) for seen in self._seen], begin_s, end_s
            )
            for name in names
        }
        own = seconds_between([(seen.at_s, seen.own_s) for seen in self._seen], begin_s, end_s)
        peaks_mb = {name: self._peak_mb(name) for name in ("", *names)}
        return Cost(own, servers, peaks_mb.pop(""), peaks_mb)

    def _peak_mb(self, name: str) -> float:
        return sum(kb for (owner, _), kb in self._peak_kb.items() if owner == name) / 1024

    def _watch(self) -> None:
        while not self._is_over.wait(EVERY_S if self._seen else 0):
            self._look()

    def _look(self) -> None:
        own_s, servers = 0.0, dict[str, float]()
        for pid, name in tree(self._pid).items():
            owner = name if name in SERVERS else ""
            spent = cpu_s(pid, ended_children=True)
            self._note_peak(owner, pid)
            if owner:
                servers[owner] = servers.get(owner, 0.0) + spent
            else:
                own_s += spent
        for name, pid in self._watched.items():
            servers[name] = cpu_s(pid)
            self._note_peak(name, pid)
        self._note(own_s, servers)

    def _note(self, own_s: float, servers: Mapping[str, float]) -> None:
        """One more look. Figures only grow: a process that has just ended is not seen any more."""
        if self._seen:
            last = self._seen[-1]
            own_s = max(own_s, last.own_s)
            names = {**last.servers_s, **servers}
            servers = {
                name: max(servers.get(name, 0.0), last.servers_s.get(name, 0.0)) for name in names
            }
        self._seen.append(Seen(time.time(), own_s, servers))

    def _note_peak(self, owner: str, pid: int) -> None:
        kb = peak_kb(pid)
        self._peak_kb[owner, pid] = max(kb, self._peak_kb.get((owner, pid), 0))


def tree(root: int) -> dict[int, str]:
    """The process and all that descend from it, with the names of their programs."""
    found = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit() and (stat := _stat(int(folder.name))):
            found[int(folder.name)] = (int(stat[1][1]), stat[0])
    return {
        pid: found[pid][1] for pid in descendants(root, {p: of for p, (of, _) in found.items()})
    }


def descendants(root: int, parents: Mapping[int, int]) -> set[int]:
    """Who descends from `root`, itself included if it is there, by each one's parent."""
    children: dict[int, list[int]] = {}
    for pid, parent in parents.items():
        children.setdefault(parent, []).append(pid)
    reached, waiting = set[int](), [root] if root in parents else []
    while waiting:
        pid = waiting.pop()
        reached.add(pid)
        waiting += children.get(pid, ())
    return reached


def cpu_s(pid: int, *, ended_children: bool = False) -> float:
    """Time a process had on processors, all threads together; 0 when it is gone.

    With what its children had that have ended, if asked for.
    """
    if (stat := _stat(pid)) is None:
        return 0.0
    return _ticks(stat[1][11 : 15 if ended_children else 13]) / TICKS_PER_S


def peak_kb(pid: int) -> int:
    """The most memory a process ever held in RAM; 0 when it is gone."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith("VmHWM:")), 0)


def _stat(pid: int) -> tuple[str, list[str]] | None:
    """A process's name and the fields after it; None when it is gone."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    before, _, after = text.rpartition(")")
    return before.partition("(")[2], after.split()


def _ticks(fields: Iterable[str]) -> int:
    return sum(map(int, fields))


def _children_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
