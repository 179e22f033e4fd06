"""Supervision with real processes: order, restarts, stops, and nothing left behind."""

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import textwrap
import time
import urllib.request
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from pipeline.clock import SystemClock
from pipeline.errors import OperatorError
from pipeline.supervisor import News, Output, Pace, Part, Supervisor
from pipeline.up import SECOND_SIGNAL_S, claimed

QUICK = Pace(
    probe_every_s=0.02, watch_every_s=0.1, pause_min_s=0.05, pause_max_s=0.2, steady_s=30.0
)
PATIENCE_S = 40.0

# A part that notes in a shared file when it starts, is ready and is told to stop.
CHILD = """
import os, signal, sys, time
name, notes, delay_s = sys.argv[1], sys.argv[2], float(sys.argv[3])
def note(what):
    with open(notes, "a") as file:
        file.write(f"{name} {what}\\n")
def stop(*_):
    time.sleep(delay_s)
    note("stopped")
    sys.exit(0)
signal.signal(signal.SIGTERM, stop)
note("started")
time.sleep(delay_s)
note("ready")
print("part ready", flush=True)
while True:
    time.sleep(60)
"""


async def is_ready(output: Output) -> bool:
    return output.said("part ready")


async def is_never_ready(_: Output) -> bool:
    return False


def python_part(name: str, code: str, *arguments: str, ready_timeout_s: float = 20.0) -> Part:
    argv = [sys.executable, "-c", textwrap.dedent(code), *arguments]
    return Part(name, argv, "-", is_ready, ready_timeout_s=ready_timeout_s, stop_timeout_s=10.0)


def noting_part(name: str, notes: Path, delay_s: float = 0.0) -> Part:
    return python_part(name, CHILD, name, str(notes), str(delay_s))


def is_alive(pid: int) -> bool:
    """False for a zombie too: its parent may be an init that never asks for it."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state not in "ZX"


def waits(holds: Callable[[], bool], what: str) -> Iterator[float]:
    """Pauses to make until it holds; fails the test when that takes too long."""
    clock = SystemClock()
    deadline_s = clock.monotonic_s() + PATIENCE_S
    while not holds():
        assert clock.monotonic_s() < deadline_s, f"did not happen within {PATIENCE_S} s: {what}"
        yield 0.02


def eventually(holds: Callable[[], bool], what: str) -> None:
    for pause_s in waits(holds, what):
        time.sleep(pause_s)


async def eventually_told(holds: Callable[[], object], what: str) -> None:
    """The same, while the supervisor runs in this process."""
    for pause_s in waits(lambda: bool(holds()), what):
        await asyncio.sleep(pause_s)


class Run:
    """A supervisor at work in this process, and what it told."""

    def __init__(self, stages: list[list[Part]], logs: Path) -> None:
        self.news: list[News] = []
        self.supervisor = Supervisor(stages, logs, SystemClock(), self.news.append, QUICK)

    def told(self, name: str, state: str) -> list[News]:
        return [news for news in self.news if (news.part.name, news.state) == (name, state)]


@asynccontextmanager
async def supervised(stages: list[list[Part]], logs: Path) -> AsyncIterator[Run]:
    """All parts healthy, restarts going on; whatever happens, nothing is left running."""
    run = Run(stages, logs)
    watching: Awaitable[None] | None = None
    try:
        assert await asyncio.wait_for(run.supervisor.start(), PATIENCE_S)
        watching = asyncio.create_task(run.supervisor.watch())
        yield run
    finally:
        run.supervisor.ask_stop()
        if watching is not None:
            await watching
        await run.supervisor.stop()


async def test_a_stage_starts_when_the_one_before_is_healthy_and_stops_before_it(
    tmp_path: Path,
) -> None:
    notes = tmp_path / "notes"
    first = [noting_part("log", notes, 0.3), noting_part("clickhouse", notes, 0.2)]
    async with supervised([first, [noting_part("worker", notes, 0.1)]], tmp_path) as run:
        started = notes.read_text().splitlines()
        pids = run.supervisor.pids
    assert set(started[:2]) == {"log started", "clickhouse started"}, "they start together"
    assert started[4:] == ["worker started", "worker ready"]
    stopped = notes.read_text().splitlines()[6:]
    assert stopped[0] == "worker stopped"
    assert set(stopped[1:]) == {"log stopped", "clickhouse stopped"}
    assert not any(map(is_alive, pids.values()))


async def test_a_part_that_dies_is_started_again(tmp_path: Path) -> None:
    async with supervised([[noting_part("log", tmp_path / "notes")]], tmp_path) as run:
        restarts: list[dict[str, int]] = []
        run.supervisor.on_restart = lambda: restarts.append(run.supervisor.pids)
        before = run.supervisor.pids["log"]
        os.kill(before, signal.SIGKILL)
        await eventually_told(lambda: restarts, "the restart")
        assert restarts[0]["log"] != before
        (died,) = run.told("log", "died")
        assert died.detail == "was ended by SIGKILL; starting again in 0.1 s"
        assert died.last_lines == ("part ready",)
        assert len(run.told("log", "healthy")) == 2


async def test_a_part_that_always_dies_at_start_is_given_up_with_its_last_words(
    tmp_path: Path,
) -> None:
    part = python_part("log", "print('the folder is in use'); raise SystemExit(1)")
    run = Run([[part]], tmp_path)
    with pytest.raises(OperatorError, match=r"log exited with code 1; its output is in .*log\.log"):
        await asyncio.wait_for(run.supervisor.start(), PATIENCE_S)
    await run.supervisor.stop()
    assert len(run.told("log", "died")) == QUICK.first_starts - 1
    assert run.told("log", "failed")[0].last_lines == ("the folder is in use",)


async def test_a_part_that_is_never_healthy_is_given_up_and_ended(tmp_path: Path) -> None:
    part = python_part("log", "import time; time.sleep(60)", ready_timeout_s=0.5)
    run = Run([[part], [noting_part("worker", tmp_path / "notes")]], tmp_path)
    with pytest.raises(OperatorError, match=r"log was not healthy within 0\.5 s"):
        await asyncio.wait_for(run.supervisor.start(), PATIENCE_S)
    pids = run.supervisor.pids
    await run.supervisor.stop()
    assert list(pids) == ["log"], "the worker must not be started"
    assert not is_alive(pids["log"])


async def test_a_stop_while_parts_are_starting_ends_them(tmp_path: Path) -> None:
    part = python_part("log", "import time; time.sleep(60)")
    run = Run([[part]], tmp_path)
    starting = asyncio.create_task(run.supervisor.start())
    await eventually_told(lambda: run.supervisor.pids, "the start")
    pid = run.supervisor.pids["log"]
    run.supervisor.ask_stop()
    assert await starting is False
    await run.supervisor.stop()
    assert not is_alive(pid)
    assert not run.told("log", "healthy")


async def test_a_part_that_stops_answering_is_told_and_so_is_its_recovery(tmp_path: Path) -> None:
    answers = [True]

    async def probe(_: Output) -> bool:
        if not answers[0]:
            raise ConnectionRefusedError
        return True

    part = Part("log", [sys.executable, "-c", "import time; time.sleep(60)"], "-", probe)
    async with supervised([[part]], tmp_path) as run:
        answers[0] = False
        await eventually_told(lambda: run.told("log", "unhealthy"), "unhealthy")
        answers[0] = True
        await eventually_told(lambda: len(run.told("log", "healthy")) == 2, "healthy again")
        assert not run.told("log", "died"), "a part that runs is not ended for it"


STUBBORN = """
import signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("part ready", flush=True)
time.sleep(60)
"""


async def test_a_part_deaf_to_sigterm_is_killed_after_its_time(tmp_path: Path) -> None:
    argv = [sys.executable, "-c", STUBBORN]
    part = Part("log", argv, "-", is_ready, stop_timeout_s=0.5)
    async with supervised([[part]], tmp_path) as run:
        pid = run.supervisor.pids["log"]
    assert not is_alive(pid)
    assert run.told("log", "killed")


async def test_a_second_request_kills_at_once(tmp_path: Path) -> None:
    clock = SystemClock()
    async with supervised([[python_part("log", STUBBORN)]], tmp_path) as run:
        run.supervisor.kill_now()
        asked_s = clock.monotonic_s()
    assert clock.monotonic_s() - asked_s < 5.0, "its own time-out is 10 s"
    assert run.told("log", "killed")


async def test_parts_are_out_of_reach_of_the_terminals_ctrl_c(tmp_path: Path) -> None:
    async with supervised([[noting_part("log", tmp_path / "notes")]], tmp_path) as run:
        pid = run.supervisor.pids["log"]
        assert os.getsid(pid) == os.getpgid(pid) == pid


SUPERVISOR = """
import asyncio, sys
from pathlib import Path
from pipeline.clock import SystemClock
from pipeline.supervisor import Part, Supervisor

async def main(folder):
    async def probe(output):
        return output.said("part ready")
    code = "import time; print('part ready', flush=True); time.sleep(60)"
    parts = [Part(name, [sys.executable, "-c", code], "-", probe) for name in ("log", "worker")]
    supervisor = Supervisor([[part] for part in parts], folder, SystemClock(), lambda news: None)
    await supervisor.start()
    print(*supervisor.pids.values(), flush=True)
    await supervisor.watch()

asyncio.run(main(Path(sys.argv[1])))
"""


def test_a_supervisor_killed_outright_leaves_no_part_behind(tmp_path: Path) -> None:
    argv = [sys.executable, "-c", SUPERVISOR, str(tmp_path)]
    pids: list[int] = []
    try:
        with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as process:
            try:
                assert process.stdout is not None
                pids += map(int, process.stdout.readline().split())
                assert len(pids) == 2
                assert all(map(is_alive, pids))
            finally:
                process.kill()
        eventually(lambda: not any(map(is_alive, pids)), "the end of the parts")
    finally:
        for pid in filter(is_alive, pids):
            os.kill(pid, signal.SIGKILL)


def test_a_part_whose_supervisor_died_before_it_was_tied_to_it_does_not_start() -> None:
    nobody = "1"
    argv = [sys.executable, "-m", "pipeline.supervisor", nobody, sys.executable, "-c", "print(1)"]
    result = subprocess.run(argv, capture_output=True, timeout=PATIENCE_S, check=False)
    assert (result.returncode, result.stdout) == (1, b"")


FREE_PORTS = ("--kafka-port", "0", "--clickhouse-port", "0", "--web-port", "0")


@contextmanager
def tally_up(data: Path, *options: str) -> Iterator[subprocess.Popen[str]]:
    """`tally up` as people run it. Killing it is enough of a clean-up: its parts go with it."""
    argv = [sys.executable, "-m", "pipeline.cli", "up", "--data", str(data), *options]
    pipe = subprocess.PIPE
    with subprocess.Popen(argv, stdout=pipe, stderr=pipe, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def refusal(data: Path, *options: str) -> str:
    """The one line with which `tally up` refuses before it starts anything."""
    with tally_up(data, *options) as process:
        printed, error = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, printed) == (1, "")
    assert error.count("\n") == 1
    assert not (data / "logs").exists(), "a part was started"
    return error


def test_a_folder_in_use_is_refused_with_its_holder(tmp_path: Path) -> None:
    with claimed(tmp_path):
        error = refusal(tmp_path, *FREE_PORTS)
    assert error == (
        f"tally: {tmp_path} is in use by process {os.getpid()}: "
        "stop it, or choose another with --data\n"
    )


def test_a_folder_that_cannot_be_made_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert "choose --data" in refusal(tmp_path / "file" / "data", *FREE_PORTS)


@pytest.mark.parametrize("option", ["--kafka-port", "--clickhouse-port", "--web-port"])
def test_a_taken_port_is_refused_with_the_option_to_change(option: str, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        error = refusal(tmp_path, *FREE_PORTS, option, str(port))
    assert error.startswith(f"tally: port {port} cannot be used (Address already in use)")
    assert error.endswith(f"choose another with {option}\n")


def test_one_port_for_two_parts_is_refused(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    error = refusal(tmp_path, "--kafka-port", port, "--clickhouse-port", port, "--web-port", "0")
    assert error.endswith("choose another with --clickhouse-port\n")


class Found(NamedTuple):
    """What a script reads in addresses.json."""

    kafka: str
    clickhouse: str
    web: str | None
    pids: dict[str, int]


def found(process: subprocess.Popen[str], data: Path) -> Found:
    """Waits until this `tally up` has written its addresses; fails at once when it has ended."""
    file = data / "addresses.json"

    def written() -> bool:
        assert process.poll() is None, process.communicate()
        # A run that was killed could not remove its own.
        return file.exists() and json.loads(file.read_text())["pids"]["up"] == process.pid

    eventually(written, "all parts healthy")
    return Found(**json.loads(file.read_text()))


def admin_of(where: Found) -> AdminClient:
    return AdminClient({"bootstrap.servers": where.kafka, "log_level": 0})


def answers(where: Found) -> bool:
    with urllib.request.urlopen(f"{where.clickhouse}/?query=SELECT%201", timeout=5) as response:
        one: bytes = response.read()
    admin_of(where).list_topics(timeout=5)
    return one == b"1\n"


# The servers alone: what workers do has its own tests.
SERVERS = (*FREE_PORTS, "--workers", "0")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_up_serves_until_a_signal_and_leaves_nothing_behind(
    number: signal.Signals, tmp_path: Path
) -> None:
    with tally_up(tmp_path, *SERVERS) as process:
        where = found(process, tmp_path)
        assert answers(where)
        assert where.web is None, "nothing listens there yet"
        assert set(where.pids) == {"up", "log", "clickhouse"}
        assert where.pids["up"] == process.pid
        process.send_signal(number)
        printed, error = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, error) == (0, "")
    assert f"log         {where.kafka}" in printed
    assert f"export TALLY_KAFKA={where.kafka} TALLY_CLICKHOUSE={where.clickhouse}" in printed
    assert [line.split()[2] for line in printed.splitlines()[-2:]] == ["stopped", "stopped"]
    assert not (tmp_path / "addresses.json").exists()
    assert not any(map(is_alive, where.pids.values()))


def test_up_comes_back_at_once_after_it_was_killed_outright(tmp_path: Path) -> None:
    with tally_up(tmp_path, *SERVERS) as process:
        where = found(process, tmp_path)
        admin = admin_of(where)  # named, for a client that is collected fails what it waits for
        admin.create_topics([NewTopic("kept", 3)])["kept"].result(timeout=10)
        process.kill()
    ports = [address.rpartition(":")[2] for address in (where.kafka, where.clickhouse)]
    same = ("--kafka-port", ports[0], "--clickhouse-port", ports[1], "--web-port", "0")
    with tally_up(tmp_path, *same, "--workers", "0") as process:
        again = found(process, tmp_path)
        assert answers(again)
        assert len(admin_of(again).list_topics(timeout=5).topics["kept"].partitions) == 3
    eventually(lambda: not any(map(is_alive, where.pids.values())), "the end of the old parts")


def test_addresses_follow_a_part_that_was_started_again(tmp_path: Path) -> None:
    with tally_up(tmp_path, *SERVERS) as process:
        before = found(process, tmp_path)
        os.kill(before.pids["log"], signal.SIGKILL)
        old = before.pids["log"]
        eventually(lambda: found(process, tmp_path).pids["log"] != old, "the restart")
        after = found(process, tmp_path)
        assert after.kafka == before.kafka
        assert answers(after)


def test_a_second_ctrl_c_kills_a_part_that_hangs(tmp_path: Path) -> None:
    with tally_up(tmp_path, *SERVERS) as process:
        where = found(process, tmp_path)
        os.kill(where.pids["log"], signal.SIGSTOP)
        process.send_signal(signal.SIGINT)
        process.send_signal(signal.SIGINT)
        time.sleep(2 * SECOND_SIGNAL_S)
        assert process.poll() is None, "two at the same moment are one"
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 130
    assert not any(map(is_alive, where.pids.values()))


def test_the_commands_that_up_shows_count_an_event(tmp_path: Path) -> None:
    with tally_up(tmp_path, *FREE_PORTS, "--workers", "1") as process:
        where = found(process, tmp_path)
        command_line = Path(f"/proc/{where.pids['worker']}/cmdline").read_text().split("\0")
        assert "worker" in command_line
        environment = {
            **os.environ,
            "TALLY_KAFKA": where.kafka,
            "TALLY_CLICKHOUSE": where.clickhouse,
        }

        def tally(*arguments: str, typed: str = "") -> str:
            return subprocess.run(
                [sys.executable, "-m", "pipeline.cli", *arguments],
                input=typed, env=environment, text=True,
                check=True, timeout=PATIENCE_S, stdout=subprocess.PIPE,
            ).stdout  # fmt: skip

        def total() -> int:
            answer: dict[str, int] = json.loads(tally("count", "likes:post-42", "--json"))
            return answer["total"]

        tally("produce", "-", typed='{"counter": "likes:post-42"}\n')
        eventually(lambda: total() == 1, "the event is counted")
        process.send_signal(signal.SIGINT)
        printed, _ = process.communicate(timeout=PATIENCE_S)
    stopped = [line.split()[0] for line in printed.splitlines() if " stopped " in line]
    assert stopped[0] == "worker", "it writes its last checkpoint while the servers are there"
