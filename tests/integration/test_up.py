"""`tally up` as people run it: refusals, signals, restarts, and the commands it shows."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from pipeline.local.up import SECOND_SIGNAL_S, claimed
from tests.kit.processes import PATIENCE_S, wait_until
from tests.kit.tally import START_TIMEOUT_S
from tests.kit.tied import start_tied
from tests.kit.waiting import eventually, is_alive

pytestmark = pytest.mark.timeout(300)

FREE_PORTS = ("--kafka-port", "0", "--clickhouse-port", "0", "--web-port", "0")


@contextmanager
def tally_up(data: Path, *options: str) -> Iterator[subprocess.Popen[str]]:
    """`tally up` as people run it. Killing it is enough of a clean-up: its parts go with it."""
    argv = [sys.executable, "-m", "pipeline.cli", "up", "--data", str(data), *options]
    pipe = subprocess.PIPE
    with start_tied(argv, stdout=pipe, stderr=pipe, text=True) as process:
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
    assert (
        error == f"tally: port {port} is asked for twice: choose another with --clickhouse-port\n"
    )


class Found(NamedTuple):
    """What a script reads in addresses.json."""

    kafka: str
    clickhouse: str
    web: str | None
    metrics: dict[str, str]
    pids: dict[str, int]


def found(process: subprocess.Popen[str], data: Path) -> Found:
    """Waits until this `tally up` has written its addresses; fails at once when it has ended."""
    file = data / "addresses.json"

    def written() -> bool:
        assert process.poll() is None, process.communicate()
        # A run that was killed could not remove its own.
        return file.exists() and json.loads(file.read_text())["pids"]["up"] == process.pid

    wait_until(written, "all parts healthy", timeout_s=START_TIMEOUT_S)
    return Found(**json.loads(file.read_text()))


def admin_of(where: Found) -> AdminClient:
    return AdminClient({"bootstrap.servers": where.kafka, "log_level": 0})


def answers(where: Found) -> bool:
    with urllib.request.urlopen(f"{where.clickhouse}/?query=SELECT%201", timeout=30) as response:
        one: bytes = response.read()
    admin_of(where).list_topics(timeout=30)
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
        assert where.web is not None
        assert set(where.pids) == {"up", "log", "clickhouse", "web"}
        assert where.pids["up"] == process.pid
        process.send_signal(number)
        printed, error = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, error) == (0, "")
    assert f"log         {where.kafka}" in printed
    assert f"export TALLY_KAFKA={where.kafka} TALLY_CLICKHOUSE={where.clickhouse}" in printed
    assert [line.split()[2] for line in printed.splitlines()[-3:]] == ["stopped"] * 3
    assert not (tmp_path / "addresses.json").exists()
    assert not any(map(is_alive, where.pids.values()))


@pytest.mark.parametrize(("options", "mode"), [((), "second"), (("--fsync", "always"), "always")])
def test_the_log_is_synced_as_up_was_told(
    options: tuple[str, ...], mode: str, tmp_path: Path
) -> None:
    with tally_up(tmp_path, *SERVERS, *options) as process:
        where = found(process, tmp_path)
        command_line = Path(f"/proc/{where.pids['log']}/cmdline").read_text().split("\0")
        assert command_line[command_line.index("--fsync") + 1] == mode
        assert answers(where)


def test_an_unknown_way_to_sync_is_refused(tmp_path: Path) -> None:
    with tally_up(tmp_path, *SERVERS, "--fsync", "never") as process:
        _, error = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 2
    assert "never" in error
    assert not (tmp_path / "logs").exists(), "a part was started"


def test_up_comes_back_at_once_after_it_was_killed_outright(tmp_path: Path) -> None:
    with tally_up(tmp_path, *SERVERS) as process:
        where = found(process, tmp_path)
        admin = admin_of(where)  # named, for a client that is collected fails what it waits for
        admin.create_topics([NewTopic("kept", 3)])["kept"].result(timeout=30)
        process.kill()
    ports = [address.rpartition(":")[2] for address in (where.kafka, where.clickhouse)]
    same = ("--kafka-port", ports[0], "--clickhouse-port", ports[1], "--web-port", "0")
    with tally_up(tmp_path, *same, "--workers", "0") as process:
        again = found(process, tmp_path)
        assert answers(again)
        assert len(admin_of(again).list_topics(timeout=30).topics["kept"].partitions) == 3
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
    # The worker writes its last checkpoint while the servers are there.
    assert set(stopped[:2]) == {"worker", "web"}
    assert set(stopped[2:]) == {"log", "clickhouse"}
