"""What each harm does to a site: begun, held for its time, and undone."""

import random
import signal
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import httpx

from tests.chaos.crew import Crew
from tests.chaos.links import Link
from tests.chaos.part import write_skew
from tests.chaos.rules import FIRST, OTHERS
from tests.chaos.schedule import LULL_MORE_S, LULL_S, REPLAY, WEBS, WORKERS, Harm
from tests.chaos.score import Fate, Score
from tests.chaos.site import Site, signal_broker
from tests.chaos.workload import FAMILIES, KEYS
from tests.kit.processes import Process, ProcessFailedError

DELAY_S_MAX = 0.4
TEAR_S = 10.0
"""So long something may take to come that can be torn."""

COMMAND_TIMEOUT_S = 60.0
COMMAND_PATIENCE_S = 120.0
"""So long a command is tried again while servers are away."""

AGAIN_S = 1.0
LOOK_S = 0.2
AGAIN_FULL_S = 0.05
SKEW_S_MAX = {"log": 120.0, "web": 120.0, "workers": 30 * 3600.0}
"""Events may be five minutes ahead of log time, of which the log's clock may take two, and the web
API refuses by its own clock. What workers count must not depend on theirs at all."""

CACHES = ("MARK", "UNCOMPRESSED", "QUERY", "COMPILED EXPRESSION")


class CommandFailedError(Exception):
    """A command ended with an error that it tells of, as it does where a server is away."""


AWAY = (CommandFailedError, ProcessFailedError, httpx.HTTPError)
"""What is expected amid harms. All else is a mistake, here or in Tally."""


@dataclass
class Harms:
    """Does harms to a site, each in a thread of its own; what became of them is in `score`."""

    site: Site
    crew: Crew
    tell: Callable[[str], None]
    score: Score = field(default_factory=Score)
    over: threading.Event = field(default_factory=threading.Event)
    _partitions: int = 8
    _threads: list[threading.Thread] = field(default_factory=list)
    _errors: list[Exception] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _is_replaying: bool = False
    _replay_until_s: float = 0.0

    def begin(self, harm: Harm) -> None:
        """Begin and return; it ends by itself."""
        self.tell(str(harm))
        thread = threading.Thread(target=self._noted, args=(harm,), name=harm.kind, daemon=True)
        thread.start()
        self._threads.append(thread)

    def wait_for_replay(self, timeout_s: float) -> float:
        """Block while one is on its way; so many seconds it took."""
        began_s = time.monotonic()
        while self._is_replaying and time.monotonic() - began_s < timeout_s:
            time.sleep(LOOK_S)
        return time.monotonic() - began_s

    def end(self) -> None:
        """Undo what still goes on, and make everything well. Blocks until it is.

        Raises ExceptionGroup if a harm met with anything that no server that is away explains.
        """
        self.over.set()
        for thread in self._threads:
            thread.join(LULL_S + LULL_MORE_S + COMMAND_TIMEOUT_S)
            assert not thread.is_alive(), f"{thread.name} does not end"
        for link in self.site.proxies.values():
            link.flow()
        for path in self.site.skews.values():
            write_skew(path, 0.0)
        for disk in self.site.disks.values():
            disk.free()
        if self._errors:
            raise ExceptionGroup("harms met with what nobody expects", self._errors)

    def _noted(self, harm: Harm) -> None:
        try:
            fate = self.do(harm)
        except AWAY as error:
            fate = Fate.FAILED
            self._tell_of(harm, error)
        except Exception as error:  # Raised again by `end`: a thread has nobody to raise it to.
            error.add_note(f"by {harm}")
            self._errors.append(error)
            return
        self.score.note(harm.kind, fate)
        if fate is not Fate.DONE or harm.kind == REPLAY:
            self._tell_of(harm, fate)

    def _tell_of(self, harm: Harm, what: object) -> None:
        self.tell(f"          {harm.kind} of {harm.at_s:.0f} s: {str(what).strip()[-200:]}")

    def do(self, harm: Harm) -> Fate:
        """Do one and block until it is undone; `begin` is the same beside others.

        Raises one of AWAY if it failed as is expected amid harms, else whatever it met with.
        """
        verb, _, rest = harm.kind.partition(" ")
        if verb in {"kill", "stop", "restart"}:
            return self._to_process(verb, self._part(rest, harm.number), harm)
        if verb in {"cut", "tear", "delay", "stall"}:
            return self._to_link(verb, self.site.proxies[self._part(rest, harm.number)], harm)
        if verb == "fill":
            return self._fill(rest.rpartition(" ")[2], harm.for_s)
        if verb == "skew":
            return self._skew(rest.rpartition(" ")[2], harm)
        if harm.kind == REPLAY:
            return self._replay_unless_one_does(harm)
        return self._by_command(harm)

    def _part(self, name: str, number: int) -> str:
        several = {"worker": WORKERS, "web": WEBS}
        return f"{name}-{number % several[name]}" if name in several else name

    def _to_process(self, verb: str, part: str, harm: Harm) -> Fate:
        if part == "sender":
            self.crew.kill(harm.number, harm.for_s)
            return Fate.DONE
        if verb == "stop":
            if not self.site.runs(part):
                return Fate.SKIPPED
            self._signal(part, signal.SIGSTOP)
            self.over.wait(harm.for_s)
            self._signal(part, signal.SIGCONT)
            return Fate.DONE
        with self.site.locks[part]:  # The keeper starts it again when this is let go.
            if not self.site.runs(part):
                return Fate.SKIPPED
            self._end(part, verb)
            self.over.wait(harm.for_s)
        return Fate.DONE

    def _end(self, part: str, verb: str) -> None:
        """Raises ProcessFailedError if it was asked to end, and had to be killed."""
        ended = self.site.broker if part == "log" else self.site.process(part)
        if ended is None:
            return
        # What does not end in time when it is asked to is killed.
        asked = [signal.SIGTERM] if verb == "restart" else []
        self.site.ends.sent(part, *asked, signal.SIGKILL)
        if verb == "kill":
            ended.kill()
        elif isinstance(ended, Process):
            ended.stop(timeout_s=40)
        else:
            ended.stop()

    def _signal(self, part: str, number: signal.Signals) -> None:
        if part == "log":
            signal_broker(self.site.broker, number)
        elif (process := self.site.process(part)) is not None:
            process.send(number)

    def _to_link(self, verb: str, link: Link, harm: Harm) -> Fate:
        """It is done if somebody was connected."""
        before = link.ended
        if verb == "cut":
            link.cut()
            self.over.wait(LOOK_S)
            return _done_if(link.ended > before)
        if verb == "tear":
            link.tear()
            until_s = time.monotonic() + TEAR_S
            while link.is_to_tear and time.monotonic() < until_s and not self.over.wait(LOOK_S):
                pass
            return _done_if(link.ended > before)
        if verb == "delay":
            link.delay(harm.amount * DELAY_S_MAX)
        else:
            link.stall()
        connected = link.connections
        self.over.wait(harm.for_s)
        connected += link.connections
        if verb == "delay":
            link.delay(0)
        else:
            link.pass_on()
        return _done_if(connected > 0)

    def _fill(self, name: str, for_s: float) -> Fate:
        """What others free meanwhile is filled as well, for as long as the disk is to be full."""
        disk = self.site.disks[name]
        until_s = time.monotonic() + for_s
        try:
            while not (is_full := disk.fill()) and time.monotonic() < until_s:
                if self.over.wait(AGAIN_FULL_S):
                    break
            self.over.wait(for_s)
        finally:
            disk.free()
        return Fate.DONE if is_full else Fate.FAILED

    def _skew(self, name: str, harm: Harm) -> Fate:
        write_skew(self.site.skews[name], (harm.amount * 2 - 1) * SKEW_S_MAX[name])
        self.over.wait(harm.for_s)
        write_skew(self.site.skews[name], 0.0)
        return Fate.DONE

    def _by_command(self, harm: Harm) -> Fate:
        chance = random.Random(f"{harm}")
        if harm.kind == "drop caches":
            return self._until_done(self._drop_caches)
        if harm.kind == "add partition":
            with self._lock:
                self._partitions += 1
                arguments = ["partitions", str(self._partitions)]
        elif harm.kind == "apply rules":
            path = self.site.folder / f"rules-{harm.at_s:.0f}.toml"
            path.write_text(FIRST + chance.choice(OTHERS))
            arguments = ["rules", "apply", str(path)]
        elif harm.kind == "split counter":
            counter = f"{chance.choice(FAMILIES)}:key-{chance.randrange(KEYS // 3)}"
            arguments = ["shard", counter, "--n", str(chance.choice((1, 2, 4, 8)))]
        else:
            raise ValueError(f"nobody knows how to do {harm.kind!r}")
        return self._until_done(lambda: self._command(arguments))

    def _until_done(self, attempt: Callable[[], None]) -> Fate:
        """Again while servers are away, as an operator does; not once all is made well.

        Raises what it met with in the end.
        """
        until_s = time.monotonic() + COMMAND_PATIENCE_S
        while True:
            try:
                attempt()
            except AWAY:
                if self.over.wait(AGAIN_S) or time.monotonic() > until_s:
                    raise
            else:
                return Fate.LATE if self.over.is_set() else Fate.DONE

    def _drop_caches(self) -> None:
        url = self.site.door.url
        for cache in CACHES:
            answer = httpx.post(url, content=f"SYSTEM DROP {cache} CACHE", timeout=10)
            answer.raise_for_status()

    def _replay_unless_one_does(self, harm: Harm) -> Fate:
        """One at a time: a replay that is on its way has this one's time as well."""
        with self._lock:
            self._replay_until_s = max(self._replay_until_s, time.monotonic() + harm.for_s)
            if self._is_replaying:
                return Fate.SKIPPED
            self._is_replaying = True
        try:
            return self._replay_until_done(harm)
        finally:
            with self._lock:
                self._is_replaying = False

    def _replay_until_done(self, harm: Harm) -> Fate:
        while True:
            try:
                self._replay_once()
            except AWAY as error:
                self._tell_of(harm, error)
            else:
                return Fate.LATE if self.over.is_set() else Fate.DONE
            if self.over.wait(AGAIN_S) or time.monotonic() > self._replay_until_s:
                return Fate.FAILED

    def _replay_once(self) -> None:
        with self._process(["replay", "--swap"]) as replay:
            while replay.running and time.monotonic() < self._replay_until_s:
                time.sleep(LOOK_S)
            if (code := replay.exit_code) is None:
                raise CommandFailedError(f"not ended in time: {_last_line(replay)}")
            _see_to(replay, code)

    def replay(self, timeout_s: float) -> None:
        """Count the log again, and take that. Blocks; raises AssertionError where it fails."""
        with self._process(["replay", "--swap"]) as replay:
            code = replay.wait(timeout_s=timeout_s)
            assert code == 0, replay.output()

    def _command(self, arguments: list[str]) -> None:
        with self._process(arguments) as process:
            _see_to(process, process.wait(timeout_s=COMMAND_TIMEOUT_S))

    def _process(self, arguments: list[str]) -> Process:
        from tests.kit.tally import TALLY

        path = self.site.folder / f"command-{arguments[0]}-{time.monotonic_ns()}.txt"
        return Process([*TALLY, *arguments], output_path=path, env=self.site.tally.env)


def _done_if(is_done: bool) -> Fate:
    """There was nobody to harm, if not."""
    return Fate.DONE if is_done else Fate.SKIPPED


def _see_to(process: Process, code: int) -> None:
    """Raises CommandFailedError for an error that was told, RuntimeError for one without cause."""
    if not code:
        return
    said = _last_line(process)
    if code != 1 or "internal error" in said:
        raise RuntimeError(f"{' '.join(process.command)} ended with {code}: {process.output()}")
    raise CommandFailedError(said)


def _last_line(process: Process) -> str:
    return (process.output().strip().splitlines() or [""])[-1]
