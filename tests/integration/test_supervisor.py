"""Supervision with real processes: order, restarts, stops, and nothing left behind."""

import asyncio
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from pipeline.clock import SystemClock
from pipeline.errors import OperatorError
from pipeline.local import yielding as as_yielding
from pipeline.local.parts import News, Output, Pace, Part
from pipeline.local.supervisor import Supervisor
from pipeline.local.up import NICENESS, yielding
from tests.kit.processes import PATIENCE_S
from tests.kit.waiting import eventually, is_alive, waits

QUICK = Pace(
    probe_every_s=0.02, watch_every_s=0.1, pause_min_s=0.05, pause_max_s=0.2, steady_s=30.0
)

# A part that notes in a shared file when it starts, is ready and is told to stop. It is not ready
# before those that it is told of have started, too.
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
for other in sys.argv[4:]:
    while f"{other} started\\n" not in open(notes).read():
        time.sleep(0.01)
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


def noting_part(name: str, notes: Path, delay_s: float = 0.0, *beside: str) -> Part:
    return python_part(name, CHILD, name, str(notes), str(delay_s), *beside)


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
    # If one were started after the other is healthy, none of them would ever be.
    first = [
        noting_part("log", notes, 0.3, "clickhouse"),
        noting_part("clickhouse", notes, 0.2, "log"),
    ]
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


async def test_a_part_whose_output_was_tidied_away_is_started_again(tmp_path: Path) -> None:
    part = noting_part("log", tmp_path / "notes")
    async with supervised([[part]], tmp_path / "logs") as run:
        (tmp_path / "logs" / "log.log").unlink()
        os.kill(run.supervisor.pids["log"], signal.SIGKILL)
        await eventually_told(lambda: len(run.told("log", "healthy")) == 2, "it is up again")


async def test_a_part_ended_by_a_signal_without_a_name_is_started_again(tmp_path: Path) -> None:
    part = noting_part("log", tmp_path / "notes")
    async with supervised([[part]], tmp_path / "logs") as run:
        number = signal.SIGRTMIN + 5
        os.kill(run.supervisor.pids["log"], number)
        await eventually_told(lambda: len(run.told("log", "healthy")) == 2, "it is up again")
        [died] = run.told("log", "died")
        assert died.detail.startswith(f"was ended by signal {number}")


async def test_a_part_that_cannot_be_started_for_a_while_is_tried_again(tmp_path: Path) -> None:
    part = noting_part("log", tmp_path / "notes")
    async with supervised([[part]], tmp_path / "logs") as run:
        logs = tmp_path / "logs"
        logs.rename(tmp_path / "aside")
        logs.write_text("no folder")
        os.kill(run.supervisor.pids["log"], signal.SIGKILL)
        await eventually_told(
            lambda: any("could not be started" in one.detail for one in run.told("log", "died")),
            "it is told why",
        )
        logs.unlink()
        (tmp_path / "aside").rename(logs)
        await eventually_told(lambda: len(run.told("log", "healthy")) == 2, "it is up again")


async def test_parts_are_ended_although_nobody_can_be_told(tmp_path: Path) -> None:
    parts = [[noting_part(name, tmp_path / "notes")] for name in ("log", "web")]
    gone = False

    def tell(_: News) -> None:
        if gone:
            raise BrokenPipeError

    supervisor = Supervisor(parts, tmp_path / "logs", SystemClock(), tell, QUICK)
    try:
        assert await supervisor.start()
        pids = supervisor.pids
        gone = True
        await supervisor.stop()
        assert not any(map(is_alive, pids.values()))
    finally:
        gone = False
        await supervisor.stop()


def test_a_step_that_was_given_up_does_not_keep_the_process(tmp_path: Path) -> None:
    code = """
    import asyncio, threading
    from pipeline.local.aside import aside
    async def main():
        task = asyncio.create_task(aside(threading.Event().wait))
        await asyncio.sleep(0.05)
        task.cancel()
    asyncio.run(main())
    print(asyncio.run(aside(lambda: "what it returns")))
    """
    command = [sys.executable, "-c", textwrap.dedent(code)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=True)
    assert (done.stdout, done.stderr) == ("what it returns\n", "")


def test_what_a_part_said_counts_though_its_output_was_emptied(tmp_path: Path) -> None:
    output = Output(tmp_path / "part.log")
    (tmp_path / "part.log").write_text("an earlier run\n")
    with os.fdopen(output.open(), "w") as file:
        assert not output.said("part ready")
        os.truncate(output.path, 0)
        file.write("part ready\n")
        file.flush()
        assert output.said("part ready")
        output.path.unlink()
        assert output.said("part ready")
        assert output.since_start() == []


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
    part = replace(python_part("log", STUBBORN), stop_timeout_s=PATIENCE_S)
    async with supervised([[part]], tmp_path) as run:
        run.supervisor.kill_now()
        asked_s = clock.monotonic_s()
    assert clock.monotonic_s() - asked_s < PATIENCE_S / 2, "its own time-out is twice that"
    assert run.told("log", "killed")


async def test_parts_are_out_of_reach_of_the_terminals_ctrl_c(tmp_path: Path) -> None:
    async with supervised([[noting_part("log", tmp_path / "notes")]], tmp_path) as run:
        pid = run.supervisor.pids["log"]
        assert os.getsid(pid) == os.getpgid(pid) == pid


SUPERVISOR = """
import asyncio, sys
from pathlib import Path
from pipeline.clock import SystemClock
from pipeline.local.parts import Part
from pipeline.local.supervisor import Supervisor

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
    argv = [sys.executable, "-m", "pipeline.local.tied", nobody, sys.executable, "-c", "print(1)"]
    result = subprocess.run(argv, capture_output=True, timeout=PATIENCE_S, check=False)
    assert (result.returncode, result.stdout) == (1, b"")


async def test_a_part_that_yields_does_so_to_the_other_parts(tmp_path: Path) -> None:
    """Each part is a session, and Linux shares processors among sessions before anything else."""
    plain = noting_part("log", tmp_path / "notes")
    parts = [plain, *(yielding(replace(plain, name=name)) for name in ("clickhouse", "worker"))]
    async with supervised([parts], tmp_path) as run:
        pids = run.supervisor.pids
        own = {name: os.getpriority(os.PRIO_PROCESS, pid) for name, pid in pids.items()}
        groups = {name: niceness_of_group(pid) for name, pid in pids.items()}
    assert own["clickhouse"] == own["worker"] == min(own["log"] + NICENESS, 19)
    if groups["log"] is not None:
        assert (groups["log"], groups["clickhouse"], groups["worker"]) == (0, NICENESS, NICENESS)


def test_one_that_yields_in_a_session_of_others_leaves_that_alone() -> None:
    code = "from pathlib import Path; print(Path('/proc/self/autogroup').read_text())"
    argv = [sys.executable, *("-I", "-S"), as_yielding.__file__, "7", sys.executable, "-c", code]
    before = niceness_of_group(os.getpid())
    if before is None:
        pytest.skip("this system has no groups by session")
    told = subprocess.run(argv, capture_output=True, timeout=PATIENCE_S, check=True, text=True)
    assert told.stdout.split()[-1] == str(before)


def niceness_of_group(pid: int) -> int | None:
    """None where the system makes no groups of sessions."""
    path = Path(f"/proc/{pid}/autogroup")
    words = path.read_text().split() if path.exists() else []
    return int(words[-1]) if words else None
