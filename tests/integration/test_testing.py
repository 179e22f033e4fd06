"""The fixture for users' tests, as they use it: in a pytest of their own, in a folder of theirs."""

import json
import os
import re
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from pipeline.errors import OperatorError, TryAgainError
from pipeline.testing import TallyServer, running_tally
from tests.kit.processes import PATIENCE_S, Process
from tests.kit.tally import START_TIMEOUT_S
from tests.kit.waiting import eventually, is_alive

DOCS = Path(__file__).parents[2] / "docs" / "testing.md"
PLUGIN = 'pytest_plugins = ["pipeline.testing"]'
MARK = "TALLY_TEST_MARK"

pytestmark = pytest.mark.timeout(300)


def documented() -> list[str]:
    """The pieces of Python in docs/testing.md."""
    return re.findall(r"```python\n(.*?)```", DOCS.read_text(), re.DOTALL)


class Project:
    """A user's folder with tests, and who runs on its behalf: children inherit its mark."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.mark = uuid.uuid4().hex

    def write(self, name: str, text: str) -> None:
        (self.folder / name).write_text(text)

    def start(self) -> Process:
        base = self.folder.parent / f"{self.folder.name}-base"
        return Process(
            [sys.executable, "-m", "pytest", "-qs", "-p", "no:cacheprovider", f"--basetemp={base}"],
            cwd=self.folder,
            env={MARK: self.mark, "PYTHONDONTWRITEBYTECODE": "1"},
            output_path=self.folder.parent / "pytest.txt",
        )

    def run(self) -> tuple[int, str]:
        with self.start() as process:
            return process.wait(timeout_s=START_TIMEOUT_S + PATIENCE_S), process.output()

    def processes(self) -> list[int]:
        """All that live now and carry the mark."""
        names = (folder.name for folder in Path("/proc").iterdir())
        return [int(name) for name in names if name.isdigit() and self._has(int(name))]

    def _has(self, pid: int) -> bool:
        try:
            marked = f"{MARK}={self.mark}".encode() in Path(f"/proc/{pid}/environ").read_bytes()
        except OSError:
            return False
        return marked and is_alive(pid)


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Project]:
    (tmp_path / "project").mkdir()
    made = Project(tmp_path / "project")
    yield made
    for pid in made.processes():
        os.kill(pid, signal.SIGKILL)


def test_the_documented_example_passes_and_leaves_nothing_behind(project: Project) -> None:
    example, conftest = documented()
    assert conftest.strip() == PLUGIN
    project.write("test_likes.py", example)
    code, printed = project.run()
    assert code == 0, printed
    assert "1 passed" in printed
    assert project.processes() == []
    assert [path.name for path in project.folder.iterdir()] == ["test_likes.py"]


def test_a_failing_test_with_the_named_plugin_leaves_nothing_behind(project: Project) -> None:
    project.write("conftest.py", PLUGIN)
    project.write(
        "test_failing.py",
        "def test_failing(tally_server):\n    assert tally_server.kafka == 'nowhere'\n",
    )
    code, printed = project.run()
    assert code == 1, printed
    assert "1 failed" in printed
    assert project.processes() == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_an_ended_test_run_leaves_nothing_behind(number: signal.Signals, project: Project) -> None:
    project.write("conftest.py", PLUGIN)
    project.write(
        "test_endless.py",
        "import time\n\n\ndef test_endless(tally_server):\n"
        "    print('reached', flush=True)\n    time.sleep(600)\n",
    )
    with project.start() as process:
        # Longer than the fixture waits: it tells what `tally up` wrote.
        process.wait_for_line("^reached$", timeout_s=START_TIMEOUT_S + PATIENCE_S)
        # pytest, `tally up`, log, ClickHouse, worker and web API: the mark finds them all.
        assert len(project.processes()) == 6
        process.send(number)
        process.wait()
    eventually(lambda: project.processes() == [], "the end of all processes")


def send(server: TallyServer, counter: str, count: int) -> None:
    producer = Producer({"bootstrap.servers": server.kafka})
    for _ in range(count):
        producer.produce("tally.increments", json.dumps({"counter": counter}))
    assert producer.flush(30) == 0


def test_the_wait_ends_when_the_worker_has_counted_and_not_before(tmp_path: Path) -> None:
    with running_tally(tmp_path) as server:
        server.wait_until_counted(timeout_s=60)
        pids = json.loads((server.data / "addresses.json").read_text())["pids"]
        os.kill(pids["worker"], signal.SIGSTOP)
        send(server, "likes:slow", 5)
        with pytest.raises(TryAgainError, match=r"not counted within 0.5 s: shard \d+ lacks \d"):
            server.wait_until_counted(timeout_s=0.5)
        os.kill(pids["worker"], signal.SIGCONT)
        server.wait_until_counted(timeout_s=60)
        asked = [sys.executable, "-m", "pipeline.cli", "count", "likes:slow", "--json"]
        answer = subprocess.run(
            asked, env={**os.environ, **server.env}, check=True, capture_output=True, timeout=30
        )
        assert json.loads(answer.stdout)["total"] == 5
    assert not any(map(is_alive, pids.values()))


def test_a_tally_that_cannot_start_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TALLY_PARTITIONS", "many")
    with pytest.raises(OperatorError, match=r"(?s)tally up ended.*TALLY_PARTITIONS"):
        running_tally(tmp_path).__enter__()


def test_without_pytest_the_module_says_what_to_install() -> None:
    code = "import sys; sys.modules['pytest'] = None; import pipeline.testing"
    done = subprocess.run(
        [sys.executable, "-c", code],
        check=False,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == (
        "ModuleNotFoundError: pipeline.testing is a plugin of pytest, which is not installed: "
        "pip install pytest"
    )
