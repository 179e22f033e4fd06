"""A whole running Tally for tests: by `tally up`, or as single processes on a broker of choice."""

import io
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol
from unittest.mock import patch

import clickhouse_connect
from clickhouse_connect.driver import Client

from pipeline import cli
from tests.kit.door import Door
from tests.kit.embedded import EmbeddedLog
from tests.kit.processes import PATIENCE_S, Process, wait_until

TALLY = (sys.executable, "-m", "pipeline.cli")
START_TIMEOUT_S = 120
NO_COLOUR = {"NO_COLOR": "1"}

Done = subprocess.CompletedProcess[str]

_process_is_ours = threading.Lock()
"""Held while streams and variables of this process are those of a command."""


@dataclass
class RunningTally:
    """Where the parts of a Tally are, and ways to use it as a user would."""

    kafka: str
    clickhouse: str
    workers: list[Process] = field(default_factory=list)
    door: Door | None = None
    settings: Mapping[str, str] = field(default_factory=dict)
    metrics: Mapping[str, str] = field(default_factory=dict)
    _readers: list[Client] = field(default_factory=list, init=False, repr=False, compare=False)

    @property
    def env(self) -> dict[str, str]:
        return {"TALLY_KAFKA": self.kafka, "TALLY_CLICKHOUSE": self.clickhouse, **self.settings}

    def client(self) -> Client:
        """clickhouse-connect's ordinary HTTP client."""
        return clickhouse_connect.get_client(dsn=self.clickhouse)

    def run(self, *arguments: str, stdin: str | bytes = b"", code: int = 0) -> Done:
        """Run a command in this process, which is quicker; its exit code must be `code`."""
        return _expected(code, _run_here(arguments, _as_bytes(stdin), self.env))

    def run_process(self, *arguments: str, stdin: str | bytes = b"", code: int = 0) -> Done:
        """Run a command as people do, in a process of its own; its exit code must be `code`."""
        done = subprocess.run(
            [*TALLY, *arguments],
            check=False,
            input=_as_bytes(stdin).decode(),
            capture_output=True,
            text=True,
            timeout=300,
            env={**os.environ, **NO_COLOUR, **self.env},
        )
        return _expected(code, done)

    def json(self, *arguments: str, stdin: str | bytes = b"", code: int = 0) -> Any:
        """Run a command with --json and read the one document it prints."""
        return json.loads(self.run(*arguments, "--json", stdin=stdin, code=code).stdout)

    def healthy_status(self) -> Any:
        """What `tally status` says once all is well, as it is from workers' first checkpoint on."""
        said: list[Done] = []

        def is_healthy() -> bool:
            said.append(_run_here(("status", "--json"), b"", self.env))
            return said[-1].returncode == 0

        try:
            wait_until(is_healthy, "all is well", poll_s=0.2)
        except AssertionError:
            _expected(0, said[-1])
        return json.loads(said[-1].stdout)

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        """What ClickHouse answers. Any thread may ask; what fails is asked on a new client next.

        Tests ask again and again until something is so, and a new client's handshake costs many
        times what a small query does, here and in ClickHouse.
        """
        try:
            reader = self._readers.pop()
        except IndexError:
            reader = clickhouse_connect.get_client(
                dsn=self.clickhouse, autogenerate_session_id=False
            )
        found = [tuple(row) for row in reader.query(query).result_rows]
        self._readers.append(reader)
        return found

    def wait_for(
        self, query: str, expected: list[tuple[Any, ...]], timeout_s: float = PATIENCE_S
    ) -> None:
        """Ask until the answer is `expected`; fail with the last answer."""
        seen: list[list[tuple[Any, ...]]] = [[]]

        def is_there() -> bool:
            seen[0] = self.rows(query)
            return seen[0] == expected

        try:
            wait_until(is_there, query, timeout_s=timeout_s, poll_s=0.2)
        except AssertionError:
            assert seen[0] == expected


def _as_bytes(text: str | bytes) -> bytes:
    return text.encode() if isinstance(text, str) else text


def _expected(code: int, done: Done) -> Done:
    assert done.returncode == code, f"{done.args}: {done.returncode}\n{done.stdout}{done.stderr}"
    return done


def _run_here(arguments: tuple[str, ...], stdin: bytes, env: Mapping[str, str]) -> Done:
    """As a process would do it, with streams of its own and these variables."""
    given = io.TextIOWrapper(io.BytesIO(stdin), encoding="utf-8")
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8") for _ in range(2))
    with (
        _process_is_ours,
        patch.dict(os.environ, {**NO_COLOUR, **env}),
        patch.object(sys, "stdin", given),
        redirect_stdout(out),
        redirect_stderr(err),
    ):
        code = cli.run(arguments)
    return subprocess.CompletedProcess(arguments, code, _written(out), _written(err))


def _written(stream: io.TextIOWrapper) -> str:
    stream.seek(0)
    return stream.read()


class HasBootstrap(Protocol):
    """As much of a broker as a Tally needs."""

    @property
    def bootstrap(self) -> str: ...


@contextmanager
def tally_up(folder: Path, settings: Mapping[str, str] | None = None) -> Iterator[RunningTally]:
    """`tally up` on ephemeral ports, as its users start it; `settings` are variables of its own."""
    data = folder / "data"
    ports = ["--kafka-port", "0", "--clickhouse-port", "0", "--web-port", "0"]
    command = [*TALLY, "up", "--data", str(data), *ports]
    with Process(command, output_path=folder / "up.txt", env=settings) as up:
        up.wait_for_line(r"Ctrl-C stops everything", timeout_s=START_TIMEOUT_S)
        addresses = json.loads((data / "addresses.json").read_text())
        metrics = addresses["metrics"]
        yield RunningTally(addresses["kafka"], addresses["clickhouse"], metrics=metrics)
        up.stop(timeout_s=90)


@contextmanager
def tally_on(
    broker: HasBootstrap,
    folder: Path,
    workers: int = 1,
    settings: Mapping[str, str] | None = None,
) -> Iterator[RunningTally]:
    """The embedded ClickHouse and workers on a given broker, each a process of its own.

    `settings` are environment variables of the workers and of commands.
    """
    door = Door(folder)
    try:
        door.start()
        tally = RunningTally(broker.bootstrap, door.url, door=door, settings=settings or {})
        try:
            for number in range(workers):
                tally.workers.append(start_worker(tally, folder / f"worker-{number}.txt"))
            yield tally
            for worker in tally.workers:
                worker.stop(timeout_s=90)
        finally:
            for worker in tally.workers:
                worker.kill()
    finally:
        door.kill()


@contextmanager
def tally_alone(folder: Path, settings: Mapping[str, str] | None = None) -> Iterator[RunningTally]:
    """As `tally_on`, with an embedded log of its own."""
    log = EmbeddedLog(folder / "log")
    log.start()
    try:
        with tally_on(log, folder, settings=settings) as running:
            yield running
    finally:
        log.kill()


def start_worker(tally: RunningTally, output_path: Path) -> Process:
    """One more worker, counting when this returns."""
    worker = Process([*TALLY, "worker"], output_path=output_path, env=tally.env)
    try:
        worker.wait_for_line(r"^worker ready", timeout_s=START_TIMEOUT_S)
    except BaseException:
        worker.kill()
        raise
    return worker
