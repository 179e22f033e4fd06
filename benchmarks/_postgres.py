"""A PostgreSQL of its own, with Debian's defaults, and pgbench against it."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tests.kit.processes import Process, free_port, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

USER = "postgres"
START_TIMEOUT_S = 60.0
_BINARIES = sorted(Path("/usr/lib/postgresql").glob("*/bin"))
_UPDATE = "UPDATE stock SET value = value - 1 WHERE name = {name} AND value >= 1;\n"


def missing() -> str | None:
    """Why there is no PostgreSQL to compare with, in a line; None if there is one."""
    if not _BINARIES or not (_BINARIES[-1] / "pgbench").exists():
        return "no PostgreSQL here (Debian's package postgresql): measured without it"
    return None


@dataclass
class Postgres:
    """A running server."""

    folder: Path
    port: int

    def sql(self, text: str) -> str:
        """What psql prints for it."""
        return _run("psql", *self._where, "-qtAc", text, "postgres").strip()

    def pgbench(self, rows: int, connections: int, seconds: float) -> dict[str, float]:
        """Conditional updates of one of so many rows at a time, each a transaction."""
        script, name = self.folder / "take.sql", "0"
        draw = ""
        if rows > 1:
            draw, name = f"\\set n random(0, {rows - 1})\n", ":n"
        script.write_text(draw + _UPDATE.format(name=name))
        self.sql(
            "DROP TABLE IF EXISTS stock; CREATE TABLE stock (name int PRIMARY KEY, value bigint); "
            f"INSERT INTO stock SELECT n, 100000000 FROM generate_series(0, {rows - 1}) n"
        )
        log = self.folder / "pgbench_log"
        for old in self.folder.glob("pgbench_log*"):
            old.unlink()
        _run(
            *("pgbench", *self._where, "-n", "-M", "prepared", "-f", str(script), "-l"),
            *(f"--log-prefix={log}", "-c", str(connections), "-j", "2", "-T", f"{seconds:.0f}"),
            "postgres",
        )
        took_ms = sorted(
            int(line.split()[2]) / 1000
            for part in self.folder.glob("pgbench_log*")
            for line in part.read_text().splitlines()
        )
        left = int(self.sql(f"SELECT {rows} * 100000000::bigint - sum(value) FROM stock"))
        return {
            "answered": len(took_ms),
            "accepted": left,
            "per_s": len(took_ms) / seconds,
            "p50_ms": took_ms[len(took_ms) // 2],
            "p99_ms": took_ms[int(len(took_ms) * 0.99)],
        }

    @property
    def _where(self) -> tuple[str, ...]:
        return ("-h", "127.0.0.1", "-p", str(self.port), "-U", USER)


@contextlib.contextmanager
def running(folder: Path) -> Iterator[Postgres]:
    """A new server that is gone on the way out. Raises CalledProcessError if it cannot be made."""
    folder.mkdir()
    folder.chmod(0o777)
    found = Postgres(folder, free_port())
    data = folder / "data"
    _run("initdb", "-D", str(data), "-U", USER, "-A", "trust", as_user=True)
    command: list[str | Path] = [
        *_as_user(),
        _BINARIES[-1] / "postgres",
        *("-D", str(data), "-p", str(found.port), "-k", str(folder)),
        *("-c", "listen_addresses=127.0.0.1"),
    ]
    with Process(command, output_path=folder / "postgres.txt") as server:
        wait_until(lambda: _answers(found), "PostgreSQL answers", timeout_s=START_TIMEOUT_S)
        yield found
        server.stop()


def _answers(postgres: Postgres) -> bool:
    with contextlib.suppress(subprocess.CalledProcessError):
        return postgres.sql("SELECT 1") == "1"
    return False


def _as_user() -> list[str]:
    """PostgreSQL does not run as root."""
    setpriv = shutil.which("setpriv")
    if os.geteuid() or setpriv is None:
        return []
    return [setpriv, f"--reuid={USER}", f"--regid={USER}", "--clear-groups"]


def _run(program: str, *arguments: str, as_user: bool = False) -> str:
    done = subprocess.run(
        [*(_as_user() if as_user else []), str(_BINARIES[-1] / program), *arguments],
        capture_output=True,
        text=True,
        check=True,
        timeout=600,
        cwd="/",
    )
    return done.stdout
