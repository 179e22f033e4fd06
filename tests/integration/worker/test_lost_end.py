"""A log that lost what was flushed and not checkpointed yet, as by a power cut, is named."""

import json
import shutil
import signal
import struct
import time
from pathlib import Path
from typing import Any

import pytest

from tests.integration.worker.events import PARTITIONS, Event, Message, Messages
from tests.integration.worker.offsets import committed, log_ends, members
from tests.integration.worker.site import Site, site_on
from tests.integration.worker.stream import TOPIC, Sender
from tests.integration.worker.test_other_log import refuse, send
from tests.kit.embedded import EmbeddedLog
from tests.kit.kafka import RealKafka, require_kafka
from tests.kit.kafka_node import data_path
from tests.kit.processes import Process, wait_until
from tests.kit.tally import TALLY

pytestmark = pytest.mark.timeout(400)

FAMILY = "lost-end"
BUILD = 1
RECORDS = 250
LOST = 5
DONE = 2


def test_what_the_log_lost_stays_counted_and_hides_nothing_that_came_in_its_place(
    tmp_path: Path,
) -> None:
    """ClickHouse keeps the greater value of a cell, so it did: as much as had been lost."""
    broker, saved = EmbeddedLog(tmp_path / "log"), tmp_path / "saved"
    with site_on(broker, tmp_path) as site:
        sender, messages = Sender(site.kafka), Messages(FAMILY, 7)
        worker = site.start_worker(BUILD)
        worker.wait_ready()
        send(sender, messages, RECORDS)
        site.settle(BUILD)
        site.stop([worker])

        worker = site.start_worker_without_checkpoints(BUILD)
        checkpointed = committed(site.kafka, BUILD)
        send(sender, messages, RECORDS)
        site.wait_flushed(BUILD)
        broker.kill()
        shutil.copytree(broker.data, saved)
        broker.start()
        send_markers(sender, LOST)
        site.wait_flushed(BUILD)
        worker.kill()
        flushed = log_ends(site.kafka)
        broker.kill()
        shutil.rmtree(broker.data)
        saved.rename(broker.data)
        broker.start()

        wait_until(lambda: not members(site.kafka, BUILD), "the group is empty", timeout_s=60)
        assert committed(site.kafka, BUILD) == checkpointed
        sender.connect()
        send_markers(sender, 1)
        assert all(now < end for now, end in zip(log_ends(site.kafka), flushed, strict=True))
        refuse(site, BUILD, "its log now ends at")
        # Heartbeats were lost as well, as many as there was time for.
        while any(now <= end for now, end in zip(log_ends(site.kafka), flushed, strict=True)):
            send_markers(sender, LOST)
        refuse(site, BUILD, "they are younger")
        accept_and_die(site, "accept-changelog")
        assert all(one["ids"] for one in accept(site))

        worker = site.start_worker(BUILD)
        worker.wait_ready()
        # Some repeat ids, also of what was flushed, and kept, and never checkpointed.
        send(sender, messages, RECORDS)
        site.settle(BUILD)
        site.expect(BUILD, FAMILY, sender)
        letters = site.tally.rows("SELECT shard, offset, row FROM tally.dead_letters")
        assert sender.bad_places <= {"/".join(map(str, place)) for place in letters}
        site.stop([worker])


@pytest.mark.kafka
def test_a_log_that_lost_its_end_is_refused_by_a_worker_that_lives_on(tmp_path: Path) -> None:
    """By the time it read again the log had grown past its position, and what had come before that
    was never counted."""
    require_kafka()
    broker = RealKafka(tmp_path / "log")
    with site_on(broker, tmp_path) as site:
        sender = Sender(site.kafka)
        # Who had written some of what was lost would be told so when it writes on.
        worker = site.start_worker(BUILD, settings={"TALLY_HEARTBEAT_INTERVAL_S": "3600"})
        worker.wait_ready()
        send_markers(sender, 1)
        site.settle(BUILD)
        for _ in range(LOST):
            send_markers(sender, 1)
        site.wait_flushed(BUILD)
        worker.send(signal.SIGSTOP)
        before = log_ends(site.kafka)
        broker.kill()
        for partition in range(PARTITIONS):
            lose_end(tmp_path / "log", partition, LOST)
        broker.start()
        sender.connect()
        send_markers(sender, 4 * LOST)
        assert all(now > end for now, end in zip(log_ends(site.kafka), before, strict=True))
        worker.send(signal.SIGCONT)
        assert worker.wait(timeout_s=120) == 1, worker.output()
        assert "another record batch" in worker.output(), worker.output()

        wait_until(lambda: not members(site.kafka, BUILD), "the group is empty", timeout_s=60)
        accept_and_die(site, "accept-commit")
        accept(site)
        worker = site.start_worker(BUILD)
        worker.wait_ready()
        send_markers(sender, 1)
        site.settle(BUILD)
        site.expect(BUILD, FAMILY, sender)
        site.stop([worker])


def lose_end(folder: Path, partition: int, batches: int) -> None:
    """As a power cut does: so many of the last record batches were not on the disk yet."""
    [path] = (data_path(folder) / f"{TOPIC}-{partition}").glob("*.log")
    raw, starts, at = path.read_bytes(), [], 0
    while at < len(raw):
        starts.append(at)
        at += 12 + struct.unpack_from(">i", raw, at + 8)[0]
    assert at == len(raw)
    with path.open("r+b") as file:
        file.truncate(starts[-batches])


def send_markers(sender: Sender, count: int) -> None:
    """Without ids: nobody could know those of what is lost. They are stored on the return."""
    for partition in range(PARTITIONS):
        for _ in range(count):
            event = Event(f"{FAMILY}:marker", 1, int(time.time() * 1000), "eu", "m", None)
            value = json.dumps(event.document()).encode()
            sender.send(Message(partition, value, [event], [], is_frame=False))
    sender.flush()


def accept_and_die(site: Site, point: str) -> None:
    """Two shards are accepted, and of a third ClickHouse does not know yet."""
    env = {**site.tally.env, "TALLY_WORKER_FAULT": f"{point}:{DONE + 1}"}
    command = [*TALLY, "accept-log"]
    with Process(command, output_path=site.folder / "accept.txt", env=env) as accepting:
        assert accepting.wait(timeout_s=120) == 137, accepting.output()


def accept(site: Site) -> list[dict[str, Any]]:
    """The other shards go on, and then there is nothing to accept any more."""
    accepted: list[dict[str, Any]] = site.tally.json("accept-log")["accepted"]
    assert [(one["shard"], one["incarnation"], one["log"]) for one in accepted] == [
        (shard, 1, "other") for shard in range(DONE, PARTITIONS)
    ]
    told = "SELECT count() FROM tally.positions FINAL WHERE replica = 'main~1'"
    assert site.tally.rows(told) == [(PARTITIONS,)]
    assert site.tally.json("accept-log")["accepted"] == []
    return accepted
