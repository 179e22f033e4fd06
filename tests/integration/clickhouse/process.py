"""The embedded ClickHouse as a real process, and plain HTTP to it."""

import http.client
import os
import select
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self
from urllib.parse import urlencode

from tests.kit.tied import start_tied

START_WITHIN_S = 60.0
STOP_WITHIN_S = 20.0
PROGRAM = ("-m", "pipeline.embedded.clickhouse")


@dataclass(frozen=True)
class Reply:
    """An HTTP answer, whole."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def text(self) -> str:
        return self.body.decode()


def command(data: Path, port: int = 0, program: Sequence[str] = PROGRAM) -> list[str]:
    return [
        *(sys.executable, *program),
        *("--data", str(data), "--host", "127.0.0.1", "--port", str(port)),
    ]


class ClickHouse:
    """A running door; ended by its process id, whatever the test did to it."""

    def __init__(
        self,
        data: Path,
        *options: str,
        environment: Mapping[str, str] | None = None,
        program: Sequence[str] = PROGRAM,
    ) -> None:
        self.data = data
        self._process: subprocess.Popen[str] = start_tied(
            [*command(data, program=program), *options],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, **(environment or {})},
        )
        assert self._process.stdout is not None
        ready, _, _ = select.select([self._process.stdout], [], [], START_WITHIN_S)
        line = self._process.stdout.readline() if ready else ""
        if not line.startswith("clickhouse ready on "):
            _, errors = self._end(signal.SIGKILL)
            raise AssertionError(f"it did not start: {line!r} {errors}")
        self.host, _, port = line.split()[-1].rpartition(":")
        self.port = int(port)
        self.pid = self._process.pid

    def ask(
        self,
        body: str | bytes = b"",
        method: str = "POST",
        path: str = "/",
        headers: Mapping[str, str] | None = None,
        **params: str | int,
    ) -> Reply:
        """One request on a connection of its own."""
        connection = http.client.HTTPConnection(self.host, self.port, timeout=30)
        try:
            url = f"{path}?{urlencode(params)}" if params else path
            raw = body.encode() if isinstance(body, str) else body
            connection.request(method, url, raw or None, dict(headers or {}))
            answer = connection.getresponse()
            return Reply(answer.status, dict(answer.headers), answer.read())
        finally:
            connection.close()

    def rows(self, sql: str, **params: str | int) -> str:
        """The text of a query that must succeed."""
        reply = self.ask(sql, "POST", "/", None, **params)
        assert reply.status == 200, reply.text
        return reply.text

    def memory_bytes(self) -> int:
        """Resident memory of the process."""
        pages = int(Path(f"/proc/{self.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")

    def kill(self) -> None:
        self._end(signal.SIGKILL)

    def stop(self) -> tuple[int, str]:
        """SIGTERM; the exit code and what was written to stderr."""
        return self._end(signal.SIGTERM)

    def _end(self, number: signal.Signals) -> tuple[int, str]:
        if self._process.poll() is None:
            self._process.send_signal(number)
        try:
            _, errors = self._process.communicate(timeout=STOP_WITHIN_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.communicate()
            raise
        return self._process.returncode, errors

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.returncode is None:
            self._end(signal.SIGKILL)
