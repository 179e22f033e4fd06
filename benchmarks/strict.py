"""Decisions of strict counters over HTTP, beside a conditional UPDATE in PostgreSQL.

Run: python -m benchmarks.strict [--seconds S] [--rounds N] [--json FILE]

`tally up` on fresh data with its default settings and a strict family. Clients decrement without
pause, one request after the other on each connection. PostgreSQL, where it is installed, gets
`UPDATE ... SET value = value - 1 WHERE ... AND value >= 1` from pgbench, each its own transaction,
with its default settings: synced before it is answered, like a decision. pgbench talks to the
database itself, with no HTTP in between. Contestants take turns.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import httpx

from benchmarks import _postgres
from benchmarks._kit import WrongAnswerError, write_json
from tests.kit.processes import wait_until
from tests.kit.tally import tally_up

if TYPE_CHECKING:
    from collections.abc import Callable

STOCK = 100_000_000
CASES = ((1, 1), (1, 64), (1_000, 64))
"""Counters, and connections."""

RULES = '[families.stock]\nkind = "strict"\n'


@dataclass
class Contestant:
    """One server with so many counters and connections."""

    name: str
    counters: int
    connections: int
    take_turn: Callable[[int, int, float], dict[str, float]]
    rounds: list[dict[str, float]] = field(default_factory=list)

    def run(self, seconds: float) -> None:
        """Raises WrongAnswerError when more or less was taken than was answered."""
        found = self.take_turn(self.counters, self.connections, seconds)
        if found["answered"] != found["accepted"]:
            raise WrongAnswerError(f"{self.name}: {found}")
        self.rounds.append(found)

    def of(self, name: str) -> float:
        """The median of the rounds."""
        return median(one[name] for one in self.rounds)


class TallyStock:
    """Strict counters behind the web API."""

    def __init__(self, web: str) -> None:
        self._web = web
        self._client = httpx.Client(base_url=web, timeout=60)
        self._turns = 0

    def take_turn(self, counters: int, connections: int, seconds: float) -> dict[str, float]:
        """Counters of its own, filled first; what is left in the end must be what was told."""
        self._turns += 1
        names = [f"stock:{self._turns}-{number}" for number in range(counters)]
        self._ask_all(names, "increment", {"delta": STOCK, "id": "filled"})
        where = urlsplit(self._web)
        command = [sys.executable, "-m", "benchmarks._strict_load", str(where.hostname)]
        command += [str(where.port), str(connections), str(seconds)]
        paths = "\n".join(f"/api/v1/counters/{name}/decrement" for name in names)
        done = subprocess.run(
            command, input=paths, capture_output=True, text=True, check=True, timeout=seconds + 90
        )
        found: dict[str, float] = json.loads(done.stdout)
        if found["wrong"]:
            raise WrongAnswerError(f"Tally: {found['wrong']}")
        left = self._ask_all(names, "decrement", {"id": "last"})
        taken = counters * (STOCK - 1) - left
        return {**found, "accepted": taken}

    def _ask_all(self, names: list[str], what: str, fields: dict[str, object]) -> int:
        with ThreadPoolExecutor(16) as threads:
            return sum(threads.map(lambda name: self.ask(name, what, fields), names))

    def ask(self, name: str, what: str, fields: dict[str, object]) -> int:
        """One command; what remains after it. Raises HTTPStatusError."""
        answer = self._client.post(f"/api/v1/counters/{name}/{what}", json=fields)
        answer.raise_for_status()
        remaining: int = answer.json()["remaining"]
        return remaining


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    with TemporaryDirectory() as name, ExitStack() as stack:
        folder = Path(name)
        folder.chmod(0o755)
        config = folder / "tally.toml"
        config.write_text(RULES)
        stack.enter_context(tally_up(folder, {"TALLY_CONFIG": str(config)}))
        addresses = json.loads((folder / "data" / "addresses.json").read_text())
        web = str(addresses["web"])
        tally = TallyStock(web if web.startswith("http") else f"http://{web}")
        wait_until(lambda: _is_ready(tally), "strict counters are decided", timeout_s=60)
        contestants = [Contestant("Tally", *case, tally.take_turn) for case in CASES]
        if (why := _postgres.missing()) is None:
            postgres = stack.enter_context(_postgres.running(folder / "postgres"))
            contestants += [Contestant("PostgreSQL", *case, postgres.pgbench) for case in CASES]
        else:
            print(why)
        for _ in range(options.rounds):
            for one in contestants:
                one.run(options.seconds)
    _show(contestants)
    write_json(options.json, "strict", {"contestants": [_figures(one) for one in contestants]})
    return 0


def _is_ready(tally: TallyStock) -> bool:
    try:
        tally.ask("stock:ready", "increment", {"id": "ready"})
    except httpx.HTTPStatusError:
        return False
    return True


def _figures(one: Contestant) -> dict[str, object]:
    found = {name: one.of(name) for name in ("per_s", "p50_ms", "p99_ms")}
    return {"name": one.name, "counters": one.counters, "connections": one.connections, **found}


def _show(contestants: list[Contestant]) -> None:
    print(f"{'':12}{'counters':>9}{'clients':>9}{'decisions/s':>13}{'p50 ms':>9}{'p99 ms':>9}")
    for one in contestants:
        figures = f"{one.of('per_s'):>13,.0f}{one.of('p50_ms'):>9.1f}{one.of('p99_ms'):>9.1f}"
        print(f"{one.name:12}{one.counters:>9,}{one.connections:>9}{figures}")
    print(f"load average at the end: {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    sys.exit(main())
