"""`tally up`: which parts run on one machine, in which order, at which addresses.

To add a part, add it to a stage in `stages`; what it needs from others is in its environment.
"""

import asyncio
import contextlib
import http.client
import json
import os
import signal
import socket
import sys
from collections.abc import Callable, Coroutine, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from pipeline.clock import Clock
from pipeline.embedded.log.fsync import Fsync
from pipeline.errors import OperatorError
from pipeline.kafka_clients import librdkafka
from pipeline.local import claim
from pipeline.local.parts import News, Output, Part, Probe
from pipeline.local.rules import rules_step
from pipeline.local.supervisor import Supervisor
from schemas.addresses import ClickHouseAddress, KafkaAddress
from schemas.settings import NO_SECURITY, load_settings

HOST = "127.0.0.1"
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
    """Where the parts listen, in the forms TALLY_KAFKA, TALLY_CLICKHOUSE and TALLY_WEB take."""

    kafka_port: int
    clickhouse_port: int
    web_port: int

    @property
    def environment(self) -> dict[str, str]:
        return {
            "TALLY_KAFKA": f"{HOST}:{self.kafka_port}",
            "TALLY_CLICKHOUSE": f"http://{HOST}:{self.clickhouse_port}",
            "TALLY_WEB": f"{HOST}:{self.web_port}",
        }


def stages(
    data: Path, addresses: Addresses, workers: int, fsync: Fsync = Fsync.SECOND
) -> list[list[Part]]:
    """The log and ClickHouse together, then the workers. Pure."""
    kafka = (HOST, addresses.kafka_port)
    clickhouse = (HOST, addresses.clickhouse_port)
    return [
        [
            _server("log", data, kafka, _log_answers(kafka), "--fsync", fsync),
            _server("clickhouse", data, clickhouse, _clickhouse_answers(clickhouse)),
        ],
        [
            Part(
                name="worker" if workers == 1 else f"worker-{number}",
                argv=[sys.executable, "-m", "pipeline.cli", "worker"],
                address="-",
                probe=_worker_is_ready,
                ready_timeout_s=120.0,
                stop_timeout_s=20.0,
                environment={**addresses.environment, **NO_SECURITY},
            )
            for number in range(1, workers + 1)
        ],
    ]


def _server(name: str, data: Path, address: tuple[str, int], probe: Probe, *options: str) -> Part:
    host, port = address
    where = ["--data", str(data / name), "--host", host, "--port", str(port)]
    argv = [sys.executable, "-m", f"pipeline.embedded.{name}", *where, *options]
    return Part(name, argv, f"{host}:{port}", probe, ready_timeout_s=60.0)


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


async def choose_addresses(options: UpOptions, clock: Clock) -> Addresses:
    """Free ports as asked for, checked by listening on all of them at once.

    Raises OperatorError naming the option of a taken one, after a short grace for the parts of a
    killed supervisor, which the kernel may still be ending. Nobody holds a port between this check
    and its part's start; a part that loses that race says so and is started again.
    """
    deadline_s = clock.monotonic_s() + PORT_GRACE_S
    while True:
        try:
            return _listen_on_all(options)
        except OperatorError:
            if clock.monotonic_s() >= deadline_s:
                raise
        await asyncio.sleep(0.1)


def _listen_on_all(options: UpOptions) -> Addresses:
    chosen: dict[str, int] = {}
    with contextlib.ExitStack() as held:
        for name in ("kafka_port", "clickhouse_port", "web_port"):
            port: int = getattr(options, name)
            option = f"--{name.replace('_', '-')}"
            listener = held.enter_context(socket.socket())
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                listener.bind((HOST, port))
                listener.listen(1)
            except OSError as error:
                taken = f"port {port} cannot be used ({error.strerror})"
                raise OperatorError(f"{taken}: choose another with {option}") from error
            chosen[name] = listener.getsockname()[1]
    return Addresses(**chosen)


def write_addresses(path: Path, addresses: Addresses, pids: Mapping[str, int]) -> None:
    """For scripts that need to find the parts. Whole or not at all, so a reader never sees half."""
    environment = addresses.environment
    document = {
        "kafka": environment["TALLY_KAFKA"],
        "clickhouse": environment["TALLY_CLICKHOUSE"],
        "web": environment["TALLY_WEB"] if "web" in pids else None,
        "pids": {"up": os.getpid(), **pids},
    }
    draft = path.with_name(path.name + ".new")
    draft.write_text(json.dumps(document, indent=2) + "\n")
    draft.replace(path)


def next_steps(data: Path, addresses: Addresses) -> str:
    """What to do once all is healthy. Pure."""
    kafka, clickhouse, _ = addresses.environment.values()
    return f"""
Kafka       {kafka}
ClickHouse  {clickhouse}
Data        {data}

In another terminal:
  export TALLY_KAFKA={kafka} TALLY_CLICKHOUSE={clickhouse}
  echo '{{"counter": "likes:post-42"}}' | tally produce -
  tally count likes:post-42

Ctrl-C stops everything; the data stays."""


class Attend(Protocol):
    """What to do while everything is healthy; it is cancelled when everything stops.

    Calling `stop` ends everything, and so does raising.
    """

    async def __call__(self, addresses: Addresses, stop: Callable[[], None]) -> None: ...


async def up(options: UpOptions, clock: Clock, tell: Callable[[News], None], attend: Attend) -> int:
    """Runs everything until a signal; the exit code is 0, or 130 if a second signal cut it short.

    Raises OperatorError before anything is started for a folder in use, a taken port or a mistake
    in the families' file, and later for a part that cannot be brought up; all parts are ended then.
    Raises what `attend` raises.
    """
    with claimed(options.data):
        addresses = await choose_addresses(options, clock)
        kafka, clickhouse, web = addresses.environment.values()
        settings = load_settings(
            kafka=KafkaAddress(kafka), clickhouse=ClickHouseAddress(clickhouse), web=web
        )
        apply_rules = rules_step(settings, clock, tell)
        file = options.data / "addresses.json"
        file.unlink(missing_ok=True)
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
