"""`tally backup` and `tally restore` as people use them, and what they refuse."""

import json
import os
import resource
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from pipeline.backup.restoring import restore
from pipeline.backup.taking import Tell, take_backup
from pipeline.clock import SystemClock
from pipeline.errors import BadInputError, OperatorError
from pipeline.local import data_folder
from tests.integration.backup.site import settle
from tests.kit.processes import wait_until
from tests.kit.tally import START_TIMEOUT_S, TALLY, RunningTally, tally_up
from tests.kit.tied import start_tied

EVENTS = "".join(f'{{"counter": "likes:post-{number % 5}"}}\n' for number in range(500))
TRIES = 20


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("backups")


@pytest.fixture(scope="module")
def tally(folder: Path) -> Iterator[RunningTally]:
    with tally_up(folder) as running:
        running.run("produce", "-", stdin=EVENTS)
        settle(running.kafka)
        yield running


def run(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [*TALLY, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)


def test_a_backup_in_a_folder_is_named_by_the_time_and_tells_what_it_is(
    tally: RunningTally, folder: Path, tmp_path: Path
) -> None:
    (folder / "data" / "tokens.toml").write_text("# somebody's\n")
    (folder / "data" / "tokens.toml").chmod(0o600)
    told = tally.json("backup", str(tmp_path), "--data", str(folder / "data"))
    [file] = tmp_path.glob("tally-*.tar")
    assert (told["file"], told["bytes"], told["running"]) == (
        str(file),
        file.stat().st_size,
        True,
    )
    assert told["writers_held_ms"] > 0
    back = tally.json("restore", str(file), "--data", str(tmp_path / "data"))
    assert (back["files"], back["began_ms"]) == (told["files"], told["began_ms"])
    tokens = tmp_path / "data" / "tokens.toml"
    assert (tokens.read_text(), tokens.stat().st_mode & 0o777) == ("# somebody's\n", 0o600)
    assert not (tmp_path / "data" / "addresses.json").exists()
    assert not (folder / "data" / "clickhouse" / "frozen").exists()


def test_a_folder_in_use_is_never_restored_into(
    tally: RunningTally, folder: Path, tmp_path: Path
) -> None:
    data = folder / "data"
    tally.run("backup", str(tmp_path / "b.tar"), "--data", str(data))
    done = tally.run("restore", str(tmp_path / "b.tar"), "--data", str(data), code=1)
    assert "is a data folder of Tally: a backup is restored into a new folder" in done.stderr
    assert "is there already" in (
        tally.run("backup", str(tmp_path / "b.tar"), "--data", str(data), code=1).stderr
    )
    inside = tally.run("backup", str(data / "b.tar"), "--data", str(data), code=1)
    assert "lies in the folder it would be a copy of" in inside.stderr


@pytest.mark.timeout(900)
def test_a_backup_that_is_killed_leaves_nothing_that_would_be_restored(
    tally: RunningTally, folder: Path, tmp_path: Path
) -> None:
    """Killed while ClickHouse is frozen for it, which is when it leaves most behind."""
    data, target = folder / "data", tmp_path / "b.tar"
    frozen = data / "clickhouse" / "frozen"
    for _ in range(TRIES):
        argv = [*TALLY, "backup", str(target), "--data", str(data)]
        with start_tied(argv, stderr=subprocess.DEVNULL) as process:
            wait_until(
                lambda: frozen.exists() or process.poll() is not None,
                "it begins",
                timeout_s=START_TIMEOUT_S,
                poll_s=0.002,
            )
            process.send_signal(signal.SIGKILL)
            process.wait(20)
        # What is thawed is not renamed yet, perhaps: that one was caught too late, as well.
        if frozen.exists():
            break
        target.unlink(missing_ok=True)
    assert frozen.exists(), "it was never caught"
    assert not target.exists()
    part = tmp_path / "b.tar.part"
    assert part.exists()
    with pytest.raises(BadInputError):
        restore(part, tmp_path / "data", Tell())
    assert not (tmp_path / "data").exists()
    # The next one clears up, and is whole.
    tally.run("backup", str(target), "--data", str(data))
    assert not part.exists()
    assert not frozen.exists()
    restore(target, tmp_path / "data", Tell())
    tally.wait_for("SELECT toInt64(sum(net)) FROM tally.totals", [(500,)])


def test_a_full_disk_is_told_and_nothing_is_left(
    tally: RunningTally, folder: Path, tmp_path: Path
) -> None:
    del tally

    def little_room() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))

    argv = [*TALLY, "backup", str(tmp_path / "b.tar"), "--data", str(folder / "data")]
    done = subprocess.run(
        argv,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        preexec_fn=little_room,
    )
    assert done.returncode == 1
    assert done.stderr.startswith(f"tally: there is no room for {tmp_path / 'b.tar'} (File too l")
    assert done.stderr.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_only_who_can_read_the_folder_may_freeze_clickhouse(tally: RunningTally) -> None:
    for path in ("freeze", "thaw"):
        request = urllib.request.Request(f"{tally.clickhouse}/tally/{path}", b"")
        with pytest.raises(urllib.error.HTTPError, match="403"):
            urllib.request.urlopen(request, timeout=10)


def test_a_folder_that_is_none_is_refused(tmp_path: Path) -> None:
    done = run("backup", tmp_path / "b.tar", "--data", tmp_path)
    assert (done.returncode, done.stdout) == (1, "")
    assert "is no data folder of `tally up`: choose it with --data" in done.stderr


def test_a_newer_tallys_folder_is_not_started_on(tmp_path: Path) -> None:
    marker = {"format": 99, "tally": "9.9", "engine": "26.9.0"}
    (tmp_path / data_folder.MARKER).write_text(json.dumps(marker))
    done = run("up", "--data", tmp_path, "--kafka-port", "0", "--web-port", "0")
    assert done.returncode == 1
    assert "is of data format 99, written by the newer Tally 9.9" in done.stderr
    assert "use version 9.9" in done.stderr
    assert not (tmp_path / "log").exists()


@pytest.mark.timeout(900)
def test_a_backup_of_a_stopped_tally_goes_on_too_and_nobody_starts_on_it_meanwhile(
    tmp_path: Path,
) -> None:
    data = tmp_path / "data"
    with tally_up(tmp_path) as tally:
        tally.run("produce", "-", stdin=EVENTS)
        settle(tally.kafka)

    class Starting(Tell):
        told = ""

        def step(self, what: str) -> None:
            if what == "ClickHouse":
                ports = ("--kafka-port", "0", "--clickhouse-port", "0", "--web-port", "0")
                self.told = run("up", "--data", data, *ports).stderr

    starting = Starting()
    made = take_backup(data, tmp_path / "b.tar", SystemClock(), starting)
    assert not made.manifest.was_running
    assert f"is in use by process {os.getpid()}" in starting.told
    restore(made.path, tmp_path / "second" / "data", Tell())
    with tally_up(tmp_path / "second") as again:
        again.run("produce", "-", stdin=EVENTS)
        settle(again.kafka)
        again.wait_for("SELECT toInt64(sum(net)) FROM tally.totals", [(1000,)])
        again.run("verify", "--log")


def test_a_log_that_runs_alone_is_not_copied_as_if_it_were_stopped(tmp_path: Path) -> None:
    (tmp_path / "clickhouse").mkdir()
    argv = [sys.executable, "-m", "pipeline.embedded.log", "--data", str(tmp_path / "log")]
    with start_tied([*argv, "--port", "0"], stdout=subprocess.PIPE, text=True) as log:
        try:
            assert log.stdout is not None
            assert log.stdout.readline().startswith("log ready")
            with pytest.raises(OperatorError, match=f"is in use by process {log.pid}"):
                take_backup(tmp_path, tmp_path.with_suffix(".tar"), SystemClock(), Tell())
        finally:
            log.kill()
