"""What tests start ends with the tests, even when they are killed, and not before."""

import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tests.kit.processes import Process
from tests.kit.waiting import eventually, is_alive

STARTS_ONE = """
import sys, threading, time
from pathlib import Path
from tests.kit.processes import Process
def start():
    print(Process(["sleep", "600"], output_path=Path(sys.argv[1])).pid, flush=True)
thread = threading.Thread(target=start)
thread.start()
time.sleep(600)
"""

SAYS_WHETHER_TOLD = """
import sys, time
from pathlib import Path
print("ready", flush=True)
while not Path(sys.argv[1]).exists():
    time.sleep(0.01)
print("told", flush=True)
"""


def test_a_process_ends_with_the_tests_that_started_it(tmp_path: Path) -> None:
    command = [sys.executable, "-c", STARTS_ONE, str(tmp_path / "output.txt")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as tests:
        assert tests.stdout is not None
        started = int(tests.stdout.readline())
        try:
            assert is_alive(started)
        finally:
            tests.kill()

    eventually(lambda: not is_alive(started), "the end of what was started")


def test_a_process_does_not_end_with_the_thread_that_started_it(tmp_path: Path) -> None:
    command = [sys.executable, "-c", SAYS_WHETHER_TOLD, str(tmp_path / "tell")]
    started: list[Process] = []

    def start() -> None:
        started.append(Process(command, output_path=tmp_path / "output.txt"))
        started[0].wait_for_line("^ready$")

    thread = threading.Thread(target=start)
    thread.start()
    thread.join()
    with started[0] as process:
        kernels_thread = Path(f"/proc/self/task/{thread.native_id}")
        eventually(lambda: not kernels_thread.exists(), "the end of the thread")
        (tmp_path / "tell").touch()
        process.wait_for_line("^told$")


def test_a_process_that_cannot_be_started_raises(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="no-such-command"):
        Process(["no-such-command"], output_path=tmp_path / "output.txt")


def test_signals_reach_the_command_itself(tmp_path: Path) -> None:
    with Process(["sleep", "600"], output_path=tmp_path / "output.txt") as process:
        comm = Path(f"/proc/{process.pid}/comm")
        eventually(lambda: comm.read_text() == "sleep\n", "the command in place of its starter")
        process.send(signal.SIGTERM)
        assert process.wait() == -signal.SIGTERM
