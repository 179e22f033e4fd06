"""A Faust program with a table: it counts, dies, and recovers from its changelog."""

import json
import re
import sys
from pathlib import Path

import pytest

from tests.integration.log.clients import Clients, unique
from tests.kit.processes import Process, wait_until

PATIENCE_S = 120

KEYS = ("a", "b", "c", "d")


def worker(clients: Clients, app: str, topic: str, folder: Path) -> Process:
    """A worker in a process of its own; each has an empty folder, so only the log can remember."""
    folder.mkdir()
    settings = {
        "FAUST_TEST_APP": app,
        "FAUST_TEST_BROKER": clients.bootstrap,
        "FAUST_TEST_TOPIC": topic,
        "FAUST_TEST_DATA": str(folder),
    }
    command = [sys.executable, "-m", "tests.integration.log.faust_app", "worker"]
    # Of all on one machine only one could have its port.
    command += ["-l", "info", "--without-web"]
    return Process(command, output_path=folder / "output.txt", env=settings)


def send(clients: Clients, topic: str, rounds: int) -> None:
    """Count each key `rounds` times; a key always goes to the same partition."""
    for partition in (0, 1):
        keys = KEYS[partition::2]
        clients.produce(
            topic,
            [b"1"] * (rounds * len(keys)),
            partition=partition,
            key=lambda n, keys=keys: keys[n % len(keys)].encode(),  # type: ignore[misc]  # the default binds the loop's keys
        )


def line(moment: str, table: dict[str, int]) -> str:
    """The pattern of what the program prints when its table is this."""
    return re.escape(f"{moment} {json.dumps(table)}")


def changelog_counts(clients: Clients, changelog: str) -> dict[str, int]:
    found: dict[str, int] = {}
    for partition in (0, 1):
        for message in clients.read_to_end(changelog, partition=partition):
            key, value = message.key(), message.value()
            if key and value:
                found[json.loads(key)] = int(json.loads(value).split()[0])
    return found


@pytest.mark.timeout(500)
def test_a_killed_faust_worker_recovers_its_table_and_goes_on(
    clients: Clients, tmp_path: Path
) -> None:
    app, topic = unique("app"), clients.topic(partitions=2)
    changelog = f"{app}-counts-changelog"
    send(clients, topic, 25)
    before, after = (dict.fromkeys(KEYS, total) for total in (25, 40))
    with worker(clients, app, topic, tmp_path / "first") as first:
        first.wait_for_line(line("counted", before), timeout_s=PATIENCE_S)
        wait_until(lambda: changelog_counts(clients, changelog) == before, "the changelog has all")
        for partition in (0, 1):
            wait_until(
                lambda partition=partition: clients.committed(app, topic, partition).offset == 50,  # type: ignore[misc]  # the default binds the loop's partition
                "all is committed",
            )
        first.kill()
    with worker(clients, app, topic, tmp_path / "second") as second:
        second.wait_for_line(line("recovered", before), timeout_s=PATIENCE_S)
        # Between its recovery and this line Faust itself may drop a record that arrives.
        second.wait_for_line("Worker ready", timeout_s=PATIENCE_S)
        send(clients, topic, 15)
        second.wait_for_line(line("counted", after), timeout_s=PATIENCE_S)
        second.stop()
    assert changelog_counts(clients, changelog) == after
