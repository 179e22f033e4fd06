"""For tests of programs that use Tally: the fixture `tally_server`, a whole Tally of their own.

Name the plugin in the `conftest.py` at the root of the tests, `pytest_plugins =
["pipeline.testing"]`, or import the fixture: `from pipeline.testing import tally_server`. It is
`tally up` on free ports in a temporary folder, so a test meets what users meet.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from pipeline.clock import Clock, SystemClock
from pipeline.errors import OperatorError, TryAgainError
from schemas.addresses import KafkaAddress
from schemas.settings import DEFAULT_CONFIG, NO_SECURITY

try:
    import pytest
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        "pipeline.testing is a plugin of pytest, which is not installed: pip install pytest"
    ) from error

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pipeline.reads.reads import FlushedShard

START_TIMEOUT_S = 120.0
# The worker's last checkpoint, then the servers; `tally up` kills what takes longer itself.
STOP_TIMEOUT_S = 45.0
POLL_S = 0.05
SHOWN_LINES = 20
# Tests wait for flushes, so these come oftener than the one second that suits a real stream.
FLUSH_INTERVAL_S = "0.1"


@dataclass(frozen=True)
class TallyServer:
    """A running Tally: log, ClickHouse, worker and web API. Tests share it, data and all."""

    kafka: str
    """Of the log, as Kafka clients take it: host:port."""
    clickhouse: str
    """URL of ClickHouse's HTTP interface, as clickhouse-connect takes it for `dsn`."""
    web: str
    """URL of the web API."""
    data: Path
    """The folder that keeps everything; what the parts printed is in its `logs`."""
    clock: Clock = field(default_factory=SystemClock, repr=False)

    @property
    def env(self) -> dict[str, str]:
        """What tells the `tally` command, and whatever reads Tally's settings, where it is."""
        return {**NO_SECURITY, "TALLY_KAFKA": self.kafka, "TALLY_CLICKHOUSE": self.clickhouse}

    def wait_until_counted(self, timeout_s: float = 30.0) -> None:
        """Block until all that is in the log at the time of the call is counted in ClickHouse.

        What a producer still holds is not in the log: flush it first. Raises TryAgainError after
        `timeout_s`, naming the shards that lag behind; a server that is away is asked again until
        then.
        """
        # A test run that never asks for the server does not load its clients.
        from pipeline.clickhouse import connect  # noqa: PLC0415
        from pipeline.reads.reads import Reads  # noqa: PLC0415
        from pipeline.reads.status import log_ends  # noqa: PLC0415

        deadline_s = self.clock.monotonic_s() + timeout_s
        ends: dict[int, int] = {}
        while True:
            try:
                ends = ends or log_ends(KafkaAddress(self.kafka))
                with contextlib.closing(connect(self.clickhouse)) as client:
                    trouble = lagging(ends, Reads(client, self.clock).positions())
            except TryAgainError as error:
                trouble = str(error)
            if not trouble:
                return
            if self.clock.monotonic_s() >= deadline_s:
                raise TryAgainError(f"not counted within {timeout_s:g} s: {trouble}")
            time.sleep(POLL_S)


def lagging(ends: dict[int, int], flushed: list[FlushedShard]) -> str:
    """Which shards are not in ClickHouse up to their ends, in words; empty when all are. Pure."""
    through = {shard.shard: shard.flushed_through for shard in flushed}
    lags = {shard: end - 1 - through.get(shard, -1) for shard, end in ends.items()}
    return ", ".join(f"shard {shard} lacks {lag}" for shard, lag in lags.items() if lag > 0)


@contextlib.contextmanager
def running_tally(folder: Path) -> Iterator[TallyServer]:
    """A Tally in `folder`, which must exist, until the block is left, however it is left.

    Blocks until all parts are healthy; raises OperatorError with their last words when they are not
    within START_TIMEOUT_S. Use it from the main thread: on Linux, the kernel ends everything with
    the thread that started it, so that nothing outlives a killed test run.
    """
    data = folder / "tally"
    output_path = folder / "up.txt"
    ports = [f"--{name}-port=0" for name in ("kafka", "clickhouse", "web")]
    up = [sys.executable, "-m", "pipeline.cli", "up", "--data", str(data), *ports, "--workers=1"]
    with output_path.open("wb") as output:
        child = subprocess.Popen(  # noqa: S603  the argv is our own
            [sys.executable, "-m", "pipeline.local.tied", str(os.getpid()), *up],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            # A Ctrl-C is for the test run, which then leaves this block.
            start_new_session=True,
            # Workers leave a folder where they stand, which shall not be the user's project.
            cwd=folder,
            env=_environment(),
        )
    try:
        yield _healthy(child, data, output_path, SystemClock())
    finally:
        child.terminate()
        try:
            child.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()


def _environment() -> dict[str, str]:
    """The test run's own environment, in which the families' file is found from any folder.

    But for its tokens: this server asks nobody.
    """
    environment = {"TALLY_FLUSH_INTERVAL_S": FLUSH_INTERVAL_S, **os.environ, "PYTHONSAFEPATH": "1"}
    environment |= {"TALLY_TOKENS": "", "TALLY_JWT_KEY": ""}
    config = Path(environment.get("TALLY_CONFIG") or DEFAULT_CONFIG)
    if environment.get("TALLY_CONFIG") or config.is_file():
        environment["TALLY_CONFIG"] = str(config.absolute())
    return environment


def _healthy(
    child: subprocess.Popen[bytes], data: Path, output_path: Path, clock: Clock
) -> TallyServer:
    """The server once its addresses are written, which happens when all parts are healthy."""
    deadline_s = clock.monotonic_s() + START_TIMEOUT_S
    addresses = data / "addresses.json"
    while not addresses.exists():
        ended = child.poll() is not None
        if ended or clock.monotonic_s() >= deadline_s:
            words = output_path.read_text(errors="replace").splitlines()[-SHOWN_LINES:]
            what = "ended" if ended else f"was not healthy within {START_TIMEOUT_S:g} s"
            raise OperatorError("\n    ".join([f"tally up {what}; it wrote:", *words]))
        time.sleep(POLL_S)
    found = json.loads(addresses.read_text())
    return TallyServer(found["kafka"], found["clickhouse"], f"http://{found['web']}", data, clock)


@pytest.fixture(scope="session")
def tally_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TallyServer]:
    """A whole Tally for all tests of the run. They keep apart by counters of their own."""
    with running_tally(tmp_path_factory.mktemp("tally_server")) as server:
        yield server
