"""A whole Tally whose every part may be killed; what ends is started again by a keeper."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.integration.complete.comparison import SKETCH_ERROR, SKETCHED
from tests.integration.worker.offsets import committed, log_ends
from tests.integration.worker.site import make_topic
from tests.kit.brokers import Broker
from tests.kit.door import Door
from tests.kit.embedded import EmbeddedLog
from tests.kit.kafka import RealKafka
from tests.kit.processes import Process, wait_until
from tests.kit.tally import TALLY, RunningTally

WORKERS = 2
KEEPER_POLL_S = 0.2
START_TIMEOUT_S = 50
SETTLE_TIMEOUT_S = 180
SETTINGS = {
    "TALLY_FLUSH_INTERVAL_S": "0.3",
    "TALLY_CHECKPOINT_INTERVAL_S": "1",
    "TALLY_HEARTBEAT_INTERVAL_S": "1",
    "TALLY_ROLLUP_INTERVAL_S": "1",
    "TALLY_TRENDS_INTERVAL_S": "1",
}


class Site:
    """A broker, a ClickHouse, and two workers that a keeper starts again whenever they end."""

    def __init__(self, kind: str, folder: Path) -> None:
        """Nothing is started yet."""
        self.broker: Broker = (
            RealKafka(folder / "log") if kind == "kafka" else EmbeddedLog(folder / "log")
        )
        self.door = Door(folder)
        self._folder = folder
        self._workers: list[Process | None] = [None] * WORKERS
        self._starts = 0
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._keeper = threading.Thread(target=self._keep, name="keeper", daemon=True)

    @property
    def tally(self) -> RunningTally:
        return RunningTally(self.broker.bootstrap, self.door.url, settings=SETTINGS)

    def start(self) -> None:
        """Block until the servers answer; workers come up behind."""
        self.broker.start()
        make_topic(self.broker.bootstrap)
        self.door.start()
        self._keeper.start()
        rules = self._folder / "tally.toml"
        rules.write_text(
            f'[families.{SKETCHED}]\nkind = "sketched"\nsketch.error = {SKETCH_ERROR}\n'
        )
        self.tally.run("rules", "apply", str(rules), "--wait", str(START_TIMEOUT_S))

    def kill_worker(self, number: int) -> None:
        with self._lock:
            worker = self._workers[number]
            if worker is not None:
                worker.kill()

    def kill_log(self) -> None:
        self.broker.kill()
        self.broker.start()

    def kill_clickhouse(self) -> None:
        self.door.kill()
        self.door.start()

    def settle(self) -> None:
        """Block until everything that is in the log now is checkpointed."""
        ends = log_ends(self.broker.bootstrap)
        wait_until(
            lambda: all(
                at >= end for at, end in zip(committed(self.broker.bootstrap, 1), ends, strict=True)
            ),
            f"workers checkpoint up to {ends}; the last said:\n{self._said()}",
            timeout_s=SETTLE_TIMEOUT_S,
            poll_s=0.3,
        )

    def close(self) -> None:
        """Kill everything."""
        self._ended.set()
        if self._keeper.is_alive():
            self._keeper.join()
        for number in range(WORKERS):
            self.kill_worker(number)
        self.door.kill()
        self.broker.kill()

    def _keep(self) -> None:
        while not self._ended.wait(KEEPER_POLL_S):
            with self._lock:
                for number, worker in enumerate(self._workers):
                    if worker is None or not worker.running:
                        self._workers[number] = self._start_worker()

    def _start_worker(self) -> Process:
        self._starts += 1
        path = self._folder / f"worker-{self._starts}.txt"
        return Process([*TALLY, "worker"], output_path=path, env=self.tally.env)

    def _said(self) -> str:
        return "\n".join(worker.output()[-2000:] for worker in self._workers if worker)


@contextmanager
def running_site(kind: str, folder: Path) -> Iterator[Site]:
    """A site on a broker, `kafka` or `embedded`; all ends with the block."""
    site = Site(kind, folder)
    try:
        site.start()
        yield site
    finally:
        site.close()
