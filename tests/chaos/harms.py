"""What each harm does to a site: begun, held for its time, and undone."""

import contextlib
import random
import signal
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import httpx

from tests.chaos.crew import Crew
from tests.chaos.part import write_skew
from tests.chaos.rules import FIRST, OTHERS
from tests.chaos.schedule import WEBS, WORKERS, Harm
from tests.chaos.site import Site, signal_broker
from tests.chaos.workload import FAMILIES, KEYS
from tests.kit.processes import Process, ProcessFailedError

DELAY_S_MAX = 0.4
COMMAND_TIMEOUT_S = 60
REPLAY_TIMEOUT_S = 150
SKEW_S_MAX = {"log": 120.0, "web": 120.0, "workers": 30 * 3600.0}
"""Events may be five minutes ahead of log time, of which the log's clock may take two, and the web
API refuses by its own clock. What workers count must not depend on theirs at all."""

CACHES = ("MARK", "UNCOMPRESSED", "QUERY", "COMPILED EXPRESSION")


@dataclass
class Harms:
    """Does harms to a site, each in a thread of its own; what went how is in `told`."""

    site: Site
    crew: Crew
    tell: Callable[[str], None]
    begun: dict[str, int] = field(default_factory=dict)
    over: threading.Event = field(default_factory=threading.Event)
    _partitions: int = 8
    _threads: list[threading.Thread] = field(default_factory=list)
    _replaying: threading.Lock = field(default_factory=threading.Lock)

    def begin(self, harm: Harm) -> None:
        """Begin and return; it ends by itself."""
        self.begun[harm.kind] = self.begun.get(harm.kind, 0) + 1
        self.tell(str(harm))
        thread = threading.Thread(target=self._do, args=(harm,), name=harm.kind, daemon=True)
        thread.start()
        self._threads.append(thread)

    def end(self) -> None:
        """Undo what still goes on, and make everything well. Blocks until it is."""
        self.over.set()
        for thread in self._threads:
            thread.join(REPLAY_TIMEOUT_S + COMMAND_TIMEOUT_S)
            assert not thread.is_alive(), f"{thread.name} does not end"
        for proxy in self.site.proxies.values():
            proxy.flow()
        for path in self.site.skews.values():
            write_skew(path, 0.0)
        for disk in self.site.disks.values():
            disk.free()

    def _do(self, harm: Harm) -> None:
        verb, _, rest = harm.kind.partition(" ")
        try:
            if verb in {"kill", "stop", "restart"}:
                self._to_process(verb, self._part(rest, harm.number), harm.for_s)
            elif verb in {"cut", "tear", "delay", "stall"}:
                self._to_link(verb, rest, harm)
            elif verb == "fill":
                disk = self.site.disks[rest.rpartition(" ")[2]]
                disk.fill()
                self.over.wait(harm.for_s)
                disk.free()
            elif verb == "skew":
                self._skew(rest.rpartition(" ")[2], harm)
            else:
                self._by_command(harm)
        except Exception as error:  # A command may fail while servers are away.
            self.tell(f"          {harm.kind}: {str(error).strip()[-200:]}")

    def _part(self, name: str, number: int) -> str:
        several = {"worker": WORKERS, "web": WEBS}
        return f"{name}-{number % several[name]}" if name in several else f"{name}-{number}"

    def _to_process(self, verb: str, part: str, for_s: float) -> None:
        name, _, number = part.partition("-")
        if name == "sender":
            self.crew.kill(int(number), for_s)
            return
        lock = self.site.locks[part if name in {"worker", "web"} else name]
        if verb == "stop":
            self._signal(part, signal.SIGSTOP)
            self.over.wait(for_s)
            self._signal(part, signal.SIGCONT)
            return
        with lock:  # The keeper starts it again when this is let go.
            if name == "log":
                self.site.broker.kill() if verb == "kill" else self.site.broker.stop()
            elif (process := self.site.process(part)) is not None:
                self._end(process, verb)
            self.over.wait(for_s)

    def _end(self, process: Process, verb: str) -> None:
        if verb == "kill":
            process.kill()
            return
        try:
            process.stop(timeout_s=40)
        except ProcessFailedError as error:
            self.tell(f"          {error}")

    def _signal(self, part: str, number: signal.Signals) -> None:
        if part.startswith("log-"):
            signal_broker(self.site.broker, number)
        elif (process := self.site.process(part)) is not None:
            process.send(number)

    def _to_link(self, verb: str, link: str, harm: Harm) -> None:
        proxy = self.site.proxies[link]
        if verb == "cut":
            proxy.cut()
        elif verb == "tear":
            proxy.tear()
        elif verb == "delay":
            proxy.delay(harm.amount * DELAY_S_MAX)
            self.over.wait(harm.for_s)
            proxy.delay(0)
        else:
            proxy.stall()
            self.over.wait(harm.for_s)
            proxy.flow()

    def _skew(self, name: str, harm: Harm) -> None:
        if name == "log" and self.site.kind == "kafka":
            self.tell("          skew clock of log: a Kafka has the machine's own")
            return
        write_skew(self.site.skews[name], (harm.amount * 2 - 1) * SKEW_S_MAX[name])
        self.over.wait(harm.for_s)
        write_skew(self.site.skews[name], 0.0)

    def _by_command(self, harm: Harm) -> None:
        chance = random.Random(f"{harm}")
        if harm.kind == "drop caches":
            self._drop_caches()
        elif harm.kind == "add partition":
            self._partitions += 1
            self._command("partitions", str(self._partitions))
        elif harm.kind == "apply rules":
            path = self.site.folder / f"rules-{harm.at_s:.0f}.toml"
            path.write_text(FIRST + chance.choice(OTHERS))
            self._command("rules", "apply", str(path))
        elif harm.kind == "split counter":
            counter = f"{chance.choice(FAMILIES)}:key-{chance.randrange(KEYS // 3)}"
            self._command("shard", counter, "--n", str(chance.choice((1, 2, 4, 8))))
        elif self._replaying.acquire(blocking=False):
            with contextlib.closing(_Releasing(self._replaying)):
                self._replay(harm)

    def _drop_caches(self) -> None:
        url = self.site.door.url
        for cache in CACHES:
            answer = httpx.post(url, content=f"SYSTEM DROP {cache} CACHE", timeout=10)
            answer.raise_for_status()

    def _replay(self, harm: Harm) -> None:
        """Again until it has succeeded: while servers are away it may end with an error."""
        until_s = time.monotonic() + REPLAY_TIMEOUT_S
        while time.monotonic() < until_s and not self.over.is_set():
            left_s = max(1.0, until_s - time.monotonic())
            with self._process(["replay", "--swap"], "replay") as replay:
                try:
                    code = replay.wait(timeout_s=left_s)
                except ProcessFailedError:
                    code = -1
                last = (replay.output().strip().splitlines() or [""])[-1]
                self.tell(f"          replay and swap of {harm.at_s:.0f} s: {code}: {last[-150:]}")
                if code == 0:
                    return
            self.over.wait(1)

    def replay(self, timeout_s: float) -> None:
        """Count the log again, and take that. Blocks; raises AssertionError where it fails."""
        with self._process(["replay", "--swap"], "replay") as replay:
            try:
                code = replay.wait(timeout_s=timeout_s)
            except ProcessFailedError as error:
                raise AssertionError(str(error)) from error
            assert code == 0, replay.output()

    def _command(self, *arguments: str) -> None:
        with self._process(list(arguments), arguments[0]) as process:
            code = process.wait(timeout_s=COMMAND_TIMEOUT_S)
            if code:
                last = (process.output().strip().splitlines() or [""])[-1]
                self.tell(f"          {' '.join(arguments)}: {code}: {last[-200:]}")

    def _process(self, arguments: list[str], name: str) -> Process:
        from tests.kit.tally import TALLY

        path = self.site.folder / f"command-{name}-{time.monotonic_ns()}.txt"
        return Process([*TALLY, *arguments], output_path=path, env=self.site.tally.env)


class _Releasing:
    def __init__(self, lock: threading.Lock) -> None:
        self._lock = lock

    def close(self) -> None:
        self._lock.release()
