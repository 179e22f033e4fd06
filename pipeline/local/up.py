"""`tally up`: which parts run on one machine, in which order, at which addresses.

To add a part, add it to a stage in `stages`; what it needs from others is in its environment.
"""

import asyncio
import contextlib
import http.client
import json
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from pipeline.access.access import Access
from pipeline.access.own import OWN_NAME, own_hash
from pipeline.access.tokens import new_token
from pipeline.clock import Clock
from pipeline.embedded.log.fsync import Fsync
from pipeline.errors import OperatorError
from pipeline.kafka_clients import librdkafka
from pipeline.local import claim, data_folder
from pipeline.local import yielding as as_yielding
from pipeline.local.parts import News, Output, Part, Probe
from pipeline.local.ports import kept_port
from pipeline.local.rules import rules_step
from pipeline.local.supervisor import Supervisor
from schemas.addresses import ClickHouseAddress, KafkaAddress, with_user
from schemas.settings import NO_SECURITY, load_settings

HOST = "127.0.0.1"
NICENESS = 5
"""Of parts that have much to compute, so that on few cores the log and the web API, whose clients
wait for each answer, do not stand in a queue with them."""

WEB = "web"
PORT_GRACE_S = 1.0
SECOND_SIGNAL_S = 0.5
ANSWER_TIMEOUT_S = 3.0


@dataclass(frozen=True)
class UpOptions:
    """The options of `tally up`; port 0 means one that is free."""

    data: Path
    kafka_port: int
    clickhouse_port: int
    web_port: int
    workers: int
    fsync: Fsync = Fsync.SECOND


@dataclass(frozen=True)
class Addresses:
    """Where the parts listen, in the forms TALLY_KAFKA, TALLY_CLICKHOUSE and TALLY_WEB take.

    `token` is the pipeline's own, where ClickHouse asks for one: empty where it asks nobody.
    `metrics_ports` are those of parts that serve metrics on a port of their own.
    """

    kafka_port: int
    clickhouse_port: int
    web_port: int
    token: str = field(default="", repr=False)
    metrics_ports: Mapping[str, int] = field(default_factory=dict)

    @property
    def shown(self) -> dict[str, str]:
        """For people and files: without the token."""
        return {
            "TALLY_KAFKA": f"{HOST}:{self.kafka_port}",
            "TALLY_CLICKHOUSE": f"http://{HOST}:{self.clickhouse_port}",
            "TALLY_WEB": f"{HOST}:{self.web_port}",
        }

    @property
    def environment(self) -> dict[str, str]:
        """For the pipeline's own processes: with the token, so never to be printed."""
        found = self.shown
        if self.token:
            url = found["TALLY_CLICKHOUSE"]
            found["TALLY_CLICKHOUSE"] = with_user(url, OWN_NAME, self.token)
        return found

    @property
    def metrics(self) -> dict[str, str]:
        """Where each part serves its metrics. ClickHouse does so where it takes queries."""
        ports = {**self.metrics_ports, "clickhouse": self.clickhouse_port}
        return {part: f"{HOST}:{port}" for part, port in ports.items()}

    def environment_of(self, part: str) -> dict[str, str]:
        """What a part is told. An address that this process was given for metrics is not its."""
        return {**self.environment, **NO_SECURITY, "TALLY_METRICS": self.metrics.get(part, "")}


def stages(
    data: Path, addresses: Addresses, workers: int, fsync: Fsync = Fsync.SECOND
) -> list[list[Part]]:
    """The log and ClickHouse together, then the workers and the web API. Pure."""
    kafka = (HOST, addresses.kafka_port)
    clickhouse = (HOST, addresses.clickhouse_port)
    return [
        [
            _server(
                "log",
                data,
                kafka,
                _log_answers(kafka),
                {"TALLY_METRICS": addresses.metrics.get("log", "")},
                "--fsync",
                fsync,
            ),
            yielding(
                _server(
                    "clickhouse",
                    data,
                    clickhouse,
                    _clickhouse_answers(clickhouse),
                    own_hash(addresses.token) if addresses.token else {},
                )
            ),
        ],
        [
            yielding(
                Part(
                    name=name,
                    argv=[sys.executable, "-m", "pipeline.cli", "worker"],
                    address="-",
                    probe=_worker_is_ready,
                    ready_timeout_s=120.0,
                    stop_timeout_s=20.0,
                    environment=addresses.environment_of(name),
                )
            )
            for name in worker_names(workers)
        ]
        + [
            Part(
                name=WEB,
                argv=[sys.executable, "-m", "pipeline.cli", "serve"],
                address=f"{HOST}:{addresses.web_port}",
                probe=_web_is_ready,
                ready_timeout_s=60.0,
                stop_timeout_s=15.0,
                environment=addresses.environment_of(WEB),
            )
        ],
    ]


def yielding(part: Part) -> Part:
    """The part at a lower priority. Its process is the same: what yields becomes what it starts."""
    through = [sys.executable, "-I", "-S", as_yielding.__file__, str(NICENESS)]
    return replace(part, argv=[*through, *part.argv])


def worker_names(workers: int) -> list[str]:
    """What the workers are called."""
    return ["worker"] if workers == 1 else [f"worker-{one}" for one in range(1, workers + 1)]


def _server(
    name: str,
    data: Path,
    address: tuple[str, int],
    probe: Probe,
    environment: Mapping[str, str],
    *options: str,
) -> Part:
    host, port = address
    where = ["--data", str(data / name), "--host", host, "--port", str(port)]
    argv = [sys.executable, "-m", f"pipeline.embedded.{name}", *where, *options]
    return Part(name, argv, f"{host}:{port}", probe, ready_timeout_s=60.0, environment=environment)


async def _web_is_ready(output: Output) -> bool:
    return output.said("web ready")


async def _worker_is_ready(output: Output) -> bool:
    return output.said("worker ready")


def _log_answers(address: tuple[str, int]) -> Probe:
    host, port = address

    async def probe(_: Output) -> bool:
        # A refused connection is an answer at once, while librdkafka would try until its time-out.
        writer = (await asyncio.open_connection(host, port))[1]
        writer.close()
        await writer.wait_closed()
        return await asyncio.to_thread(_lists_topics, f"{host}:{port}")

    return probe


def _lists_topics(bootstrap: str) -> bool:
    """Blocks for at most ANSWER_TIMEOUT_S."""
    client = AdminClient(librdkafka(KafkaAddress(bootstrap)))
    try:
        client.list_topics(timeout=ANSWER_TIMEOUT_S)
    except KafkaException:
        return False
    return True


def _clickhouse_answers(address: tuple[str, int]) -> Probe:
    async def probe(_: Output) -> bool:
        return await asyncio.to_thread(_pings, *address)

    return probe


def _pings(host: str, port: int) -> bool:
    """Blocks for at most ANSWER_TIMEOUT_S; raises OSError when nobody listens."""
    connection = http.client.HTTPConnection(host, port, timeout=ANSWER_TIMEOUT_S)
    try:
        connection.request("GET", "/ping")
        return connection.getresponse().read() == b"Ok.\n"
    except http.client.HTTPException:
        return False
    finally:
        connection.close()


def claimed(data: Path) -> AbstractContextManager[None]:
    """Holds the folder for this process; raises OperatorError, on entering, if it cannot."""
    return claim.claimed(
        data,
        "lock",
        unusable=f"cannot use {data} ({{why}}): choose --data",
        in_use=f"{data} is in use by process {{holder}}: stop it, or choose another with --data",
    )


async def choose_addresses(
    options: UpOptions, clock: Clock, kept: contextlib.ExitStack
) -> Addresses:
    """Ports as asked for, which nobody else is given until `kept` is closed.

    Raises OperatorError naming the option of a taken one, after a short grace for the parts of a
    killed supervisor, which the kernel may still be ending.
    """
    deadline_s = clock.monotonic_s() + PORT_GRACE_S
    while True:
        try:
            with contextlib.ExitStack() as found:
                addresses = _keep_all(options, found)
                kept.enter_context(found.pop_all())
                return addresses
        except OperatorError:
            if clock.monotonic_s() >= deadline_s:
                raise
        await asyncio.sleep(0.1)


def _keep_all(options: UpOptions, kept: contextlib.ExitStack) -> Addresses:
    chosen: dict[str, int] = {}
    for name in ("kafka_port", "clickhouse_port", "web_port"):
        port: int = getattr(options, name)
        option = f"--{name.replace('_', '-')}"
        if port in chosen.values():
            raise OperatorError(f"port {port} is asked for twice: choose another with {option}")
        try:
            chosen[name] = kept.enter_context(kept_port(HOST, port))
        except OSError as error:
            taken = f"port {port} cannot be used ({error.strerror})"
            raise OperatorError(f"{taken}: choose another with {option}") from error
    metrics = {
        part: kept.enter_context(kept_port(HOST, 0))
        for part in ("log", *worker_names(options.workers))
    }
    return Addresses(
        chosen["kafka_port"],
        chosen["clickhouse_port"],
        chosen["web_port"],
        metrics_ports=metrics,
    )


def write_addresses(path: Path, addresses: Addresses, pids: Mapping[str, int]) -> None:
    """For scripts that need to find the parts. Whole or not at all, so a reader never sees half."""
    environment = addresses.shown
    web = environment["TALLY_WEB"] if WEB in pids else None
    document = {
        "kafka": environment["TALLY_KAFKA"],
        "clickhouse": environment["TALLY_CLICKHOUSE"],
        "web": web,
        "metrics": {**addresses.metrics, **({} if web is None else {"web": web})},
        "pids": {"up": os.getpid(), **pids},
    }
    draft = path.with_name(path.name + ".new")
    draft.write_text(json.dumps(document, indent=2) + "\n")
    draft.replace(path)


def next_steps(data: Path, addresses: Addresses) -> str:
    """What to do once all is healthy. Pure."""
    kafka, clickhouse, web = addresses.shown.values()
    url = with_user(clickhouse, "default", "TOKEN") if addresses.token else clickhouse
    ask = "\n  # TOKEN is one that may read all families: tally token add NAME --read '*'"
    return f"""
Kafka       {kafka}
ClickHouse  {clickhouse}
Dashboard   http://{web}
Web API     http://{web}/api/v1 (its description: http://{web}/docs)
Data        {data}

In another terminal:{ask if addresses.token else ""}
  export TALLY_KAFKA={kafka} TALLY_CLICKHOUSE={url}
  echo '{{"counter": "likes:post-42"}}' | tally produce -
  tally count likes:post-42

Ctrl-C stops everything; the data stays."""


class Attend(Protocol):
    """What to do while everything is healthy; it is cancelled when everything stops.

    Calling `stop` ends everything, and so does raising.
    """

    async def __call__(self, addresses: Addresses, stop: Callable[[], None]) -> None: ...


async def up(
    options: UpOptions,
    clock: Clock,
    tell: Callable[[News], None],
    attend: Attend,
    prepare: Callable[[Path], Awaitable[None]] | None = None,
) -> int:
    """Runs everything until a signal; the exit code is 0, or 130 if a second signal cut it short.

    `prepare` is given the log's folder before anything starts, while all of it is ours.
    Raises OperatorError before anything is started for a folder in use or of a version this Tally
    does not read, a taken port or a mistake in the families' or the token file, and later for a
    part that cannot be brought up; all parts are ended then. Raises what `attend` and `prepare`
    raise.
    """
    with claimed(options.data), contextlib.ExitStack() as kept:
        data_folder.mark(options.data)
        addresses = await choose_addresses(options, clock, kept)
        # Asked here already, so that a mistake in the token file is told before anything starts.
        if Access.of(load_settings(**_where(addresses)), clock) is not None:
            addresses = replace(addresses, token=new_token())
        settings = load_settings(**_where(addresses))
        apply_rules = rules_step(settings, clock, tell)
        file = options.data / "addresses.json"
        file.unlink(missing_ok=True)
        if prepare is not None:
            await prepare(options.data / "log")
        plan = stages(options.data, addresses, options.workers, options.fsync)
        supervisor = Supervisor(plan, options.data / "logs", clock, tell)
        was_cut_short = _obey_signals(supervisor, clock)
        supervisor.before_last_stage = apply_rules
        supervisor.on_restart = lambda: write_addresses(file, addresses, supervisor.pids)
        try:
            if await supervisor.start():
                write_addresses(file, addresses, supervisor.pids)
                await _attended(attend(addresses, supervisor.ask_stop), supervisor)
        finally:
            file.unlink(missing_ok=True)
            await supervisor.stop()
        return 130 if was_cut_short() else 0


def _where(addresses: Addresses) -> dict[str, Any]:
    """As settings; what this process was told of the security of other servers is not for ours."""
    kafka, clickhouse, web = addresses.environment.values()
    return {"kafka": KafkaAddress(kafka), "clickhouse": ClickHouseAddress(clickhouse), "web": web}


async def _attended(attending: Coroutine[None, None, None], supervisor: Supervisor) -> None:
    """Watches over the parts while `attending` runs; raises what it raises."""

    def on_done(task: asyncio.Task[None]) -> None:
        if task.cancelled() or task.exception() is not None:
            supervisor.ask_stop()

    task = asyncio.create_task(attending)
    task.add_done_callback(on_done)
    try:
        await supervisor.watch()
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


def _obey_signals(supervisor: Supervisor, clock: Clock) -> Callable[[], bool]:
    """The first signal stops in order, a second kills at once; the result tells if one came.

    Runners such as make and uv pass on a Ctrl-C that the terminal also sent to us, so two at the
    same moment are one. A hang-up ends us too, unless we were started under nohup.
    """
    asked_s: list[float] = []
    cut_short = [False]

    def on_signal() -> None:
        asked_s.append(clock.monotonic_s())
        supervisor.ask_stop()
        if asked_s[-1] - asked_s[0] >= SECOND_SIGNAL_S:
            cut_short[0] = True
            supervisor.kill_now()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN:
            loop.add_signal_handler(number, on_signal)
    return lambda: cut_short[0]
