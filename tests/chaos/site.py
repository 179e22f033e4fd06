"""A whole Tally whose every part may be killed, stopped, cut off, and told a wrong time."""

import contextlib
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from urllib.parse import urlsplit

from tests.chaos.bugs import Bug, printed
from tests.chaos.ends import Ends
from tests.chaos.links import Link
from tests.chaos.part import write_skew
from tests.chaos.rules import FIRST
from tests.chaos.schedule import IMPOSSIBLE, WEBS, WORKERS
from tests.integration.worker.site import make_topic
from tests.kit.brokers import Broker
from tests.kit.disks import Disk
from tests.kit.door import Door
from tests.kit.embedded import EmbeddedLog
from tests.kit.kafka import RealKafka
from tests.kit.processes import Process, free_port
from tests.kit.tally import RunningTally
from tests.kit.web import Web

KEEPER_POLL_S = 0.2
START_AGAIN_S = 60
DISK_MB = {"log": 768, "clickhouse": 2048}
SETTINGS = {
    "TALLY_FLUSH_INTERVAL_S": "0.3",
    "TALLY_CHECKPOINT_INTERVAL_S": "1",
    "TALLY_HEARTBEAT_INTERVAL_S": "1",
    "TALLY_ROLLUP_INTERVAL_S": "2",
    "TALLY_TRENDS_INTERVAL_S": "2",
    "TALLY_VERIFY_INTERVAL_S": "20",
    "TALLY_STRICT_WAIT_S": "3",
}

DELETED = "Deleting the corrupt segment"
"""So Kafka says of what it cannot recover after a kill on a full disk; of one replica that is all
there was. The embedded log says nothing like it."""


class Site:
    """The parts, and a keeper that starts again whatever has ended. Methods are thread-safe."""

    def __init__(
        self,
        kind: str,
        folder: Path,
        tell: Callable[[str], None],
        settings: Mapping[str, str] = SETTINGS,
    ) -> None:
        """`kind` is `embedded` or `kafka`; `settings` are of workers and web processes.

        Nothing is started yet.
        """
        self.impossible = dict(IMPOSSIBLE[kind])
        """Harms that cannot be done to it, and why; all are known once it is started."""
        self.kind = kind
        self.folder = folder
        self._tell = tell
        self._settings = settings
        self.skews = {
            name: folder / f"{name}.skew" for name in ("log", "clickhouse", "workers", "web")
        }
        for path in self.skews.values():
            write_skew(path, 0.0)
        # What parts print goes elsewhere: a full disk must not be the test's own trouble.
        data = {"log": folder / "log" / "data", "clickhouse": folder / "clickhouse"}
        self.disks = {name: Disk(data[name], size) for name, size in DISK_MB.items()}
        log_port, clickhouse_port = free_port(), free_port()
        self.proxies = {"log": Link(log_port), "clickhouse": Link(clickhouse_port)}
        self._ports = log_port, clickhouse_port
        self.broker: Broker
        self.door = Door(folder, clickhouse_port, self._program("clickhouse"))
        self.workers: list[Process | None] = [None] * WORKERS
        self.webs = [
            Web(self.tally.env, folder / f"web-{number}.txt", self._tally("web"))
            for number in range(WEBS)
        ]
        for number, web in enumerate(self.webs):
            self.proxies[f"web-{number}"] = Link(urlsplit(web.url).port or 0)
        self.locks = {
            name: threading.RLock()
            for name in (
                "log",
                "clickhouse",
                *self._names("worker", WORKERS),
                *self._names("web", WEBS),
            )
        }
        self.starts = 0
        self.ends = Ends(folder)
        """How its parts ended. Keepers tell of ends, harms of what they send."""
        self._ended = threading.Event()
        self._keepers: list[threading.Thread] = []

    @property
    def tally(self) -> RunningTally:
        """As clients know it: through the proxies."""
        return RunningTally(
            f"127.0.0.1:{self.proxies['log'].port}",
            f"http://127.0.0.1:{self.proxies['clickhouse'].port}",
            settings=self._settings,
        )

    @property
    def web_urls(self) -> list[str]:
        """Of the web processes, as senders know them: through the proxies."""
        return [f"http://127.0.0.1:{self.proxies[f'web-{n}'].port}" for n in range(WEBS)]

    def start(self) -> None:
        """Block until the servers answer; workers and webs come up behind."""
        for name, disk in self.disks.items():
            if (why := disk.mount()) is not None:
                self.impossible[f"fill disk of {name}"] = why
        self.broker = self._made_broker()
        self.broker.start()
        make_topic(self.broker.bootstrap)
        self.door.start()
        # Before anybody counts or sends: who has not heard of rules yet cannot go by them.
        rules = self.folder / "rules.toml"
        rules.write_text(FIRST)
        self.tally.run("rules", "apply", str(rules), "--wait", "0")
        kept: Mapping[str, Callable[[], None]] = {
            "log": self._keep_log,
            "clickhouse": self._keep_door,
            **{f"worker-{n}": self._keeping_worker(n) for n in range(WORKERS)},
            **{f"web-{n}": self._keeping_web(n) for n in range(WEBS)},
        }
        for name, keep in kept.items():
            keeper = threading.Thread(
                target=self._keep, args=(name, keep), name=f"keep {name}", daemon=True
            )
            keeper.start()
            self._keepers.append(keeper)

    def process(self, part: str) -> Process | None:
        """A part's process now: `clickhouse`, `worker-0`, `web-1`; the log is a Broker instead."""
        name, _, number = part.partition("-")
        if name == "worker":
            return self.workers[int(number)]
        if name == "web":
            with contextlib.suppress(RuntimeError):
                return self.webs[int(number)].process
            return None
        with contextlib.suppress(RuntimeError):
            return self.door.process
        return None

    def bugs(self) -> list[Bug]:
        """By what its parts printed, and how they ended. Reads files; blocks."""
        return [*self.ends.bugs, *printed(self.folder)]

    def look_at_ends(self) -> None:
        """Note what ended and was not started again yet. Blocks while a part is being started."""
        for name in self.locks:
            with self.locks[name]:
                self._note_end(name)

    def _note_end(self, name: str) -> None:
        """Of a Kafka nothing is noted: it is none of Tally's parts."""
        if name != "log":
            self.ends.note(name, self.process(name))
        elif isinstance(self.broker, EmbeddedLog):
            self.ends.note(name, self.broker.process)

    def runs(self, part: str) -> bool:
        """Whether a part's process is there now: `log`, `clickhouse`, `worker-0`, `web-1`."""
        if part == "log":
            return self.broker.running
        process = self.process(part)
        return process is not None and process.running

    def lost(self) -> list[str]:
        """What the broker says that it deleted itself, with everything that was in it."""
        written = [path.read_text(errors="replace") for path in (self.folder / "log").glob("*.txt")]
        return [line for text in written for line in text.splitlines() if DELETED in line]

    def said(self) -> str:
        """The last that each worker wrote."""
        return "\n".join(worker.output()[-3000:] for worker in self.workers if worker)

    def close(self) -> None:
        """Kill everything and give the disks back."""
        self._ended.set()
        self._kill_all()
        for keeper in self._keepers:
            keeper.join(START_AGAIN_S)
        self._kill_all()  # A keeper may have started something meanwhile.
        for web in self.webs:
            web.client.close()
        for proxy in self.proxies.values():
            proxy.close()
        for disk in self.disks.values():
            disk.unmount()

    def _kill_all(self) -> None:
        for worker in self.workers:
            if worker is not None:
                worker.kill()
        for web in self.webs:
            web.kill()
        if hasattr(self, "broker"):
            self.broker.kill()
        self.door.kill()

    def _made_broker(self) -> Broker:
        folder, port = self.folder / "log", self._ports[0]
        advertised = self.proxies["log"].port
        if self.kind == "kafka":
            return RealKafka(folder, port=port, advertised_port=advertised)
        program = self._program("log", advertised)
        return EmbeddedLog(folder, port=port, program=program)

    def _program(self, name: str, advertised_port: int = 0) -> list[str]:
        module = f"pipeline.embedded.{name}"
        return self._skewed(name, advertised_port, module)

    def _tally(self, name: str) -> list[str]:
        return self._skewed(name, 0, "pipeline.cli")

    def _skewed(self, name: str, advertised_port: int, module: str) -> list[str]:
        part = [sys.executable, "-m", "tests.chaos.part", str(self.skews[name])]
        return [*part, str(advertised_port), module]

    def _names(self, part: str, count: int) -> list[str]:
        return [f"{part}-{number}" for number in range(count)]

    def _keep(self, name: str, keep: Callable[[], None]) -> None:
        while not self._ended.wait(KEEPER_POLL_S):
            try:
                with self.locks[name]:
                    if not self._ended.is_set():
                        self._note_end(name)
                        keep()
            except Exception as error:  # It did not start now: perhaps its disk is full.
                # What takes too long to be ready is killed by who waits for it.
                self.ends.sent(name, signal.SIGKILL)
                self._tell(f"{name} did not start: {str(error)[-300:]}")
                time.sleep(KEEPER_POLL_S)

    def _keep_log(self) -> None:
        if not self.broker.running:
            self.broker.start()

    def _keep_door(self) -> None:
        if not self.door.process.running:
            self.door.start()

    def _keeping_worker(self, number: int) -> Callable[[], None]:
        def keep() -> None:
            worker = self.workers[number]
            if worker is None or not worker.running:
                self.starts += 1
                path = self.folder / f"worker-{number}-{self.starts}.txt"
                command = [*self._tally("workers"), "worker"]
                self.workers[number] = Process(command, output_path=path, env=self.tally.env)

        return keep

    def _keeping_web(self, number: int) -> Callable[[], None]:
        def keep() -> None:
            process = self.process(f"web-{number}")
            if process is None or not process.running:
                self.webs[number].start()

        return keep


def signal_broker(broker: Broker, number: signal.Signals) -> None:
    """Send a signal to the log's process, if it runs."""
    with contextlib.suppress(RuntimeError, ProcessLookupError):
        os.kill(broker.pid, number)
