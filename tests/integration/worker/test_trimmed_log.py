"""A log that was trimmed between a flush and its checkpoint is accepted, and counted once."""

import json
import sys
import time
from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import Producer

from tests.integration.worker.events import PARTITIONS, Event, Message, Messages
from tests.integration.worker.offsets import (
    changelog_of,
    committed,
    group_of,
    log_ends,
    members,
)
from tests.integration.worker.scenarios import ONE_BROKER, proved_by
from tests.integration.worker.site import Site, fresh_site, trim
from tests.integration.worker.stream import TOPIC, Sender
from tests.kit.processes import Process, wait_until
from tests.kit.tally import START_TIMEOUT_S

pytestmark = pytest.mark.timeout(600)  # the first test waits for all scenarios

FAMILY = "trimmed"
BUILD = 1
RECORDS = 250
MARKERS = 3
TRIMMED = 2
SHORT = 0
"""The partition that is trimmed beyond what was flushed."""

Place = tuple[int, int]
"""An offset, and the log's time of it."""


def trim_after_a_flush(site: Site, seed: int) -> None:
    """On a site of its own: checkpoint, flush some more and die, lose the log's beginning up to
    somewhere in between, and accept it, with duplicates and retries of before still to come."""
    with fresh_site(site.broker.name, site.folder / "trimmed-log") as own:
        sender, messages = Sender(own.kafka), Messages(FAMILY, seed)
        refused = send_refused(own.kafka, time_ms())
        worker = own.start_worker(BUILD)
        worker.wait_ready()
        send(sender, messages, RECORDS)
        own.settle(BUILD)
        own.stop([worker])
        checkpointed = flush_without_checkpoint(own, sender, messages)
        lost_end = send_what_will_be_lost(own.kafka)
        starts = [at + TRIMMED for at in checkpointed]
        starts[SHORT] = lost_end
        trim(own.kafka, starts)
        refuse_while_somebody_is_in_the_group(own)
        accepted = accept(own)
        assert [(one["shard"], one["start"], one["log"]) for one in accepted] == [
            (shard, start, "trimmed") for shard, start in enumerate(starts)
        ]
        assert all(one["incarnation"] == 1 and one["ids"] for one in accepted)
        worker = own.start_worker(BUILD)
        worker.wait_ready()
        retry_twice(own.kafka, refused, sender)
        send(sender, messages, RECORDS)
        own.settle(BUILD)
        own.expect(BUILD, FAMILY, sender)
        own.stop([worker])


@ONE_BROKER
@proved_by(trim_after_a_flush)
def test_what_was_flushed_ids_and_refused_places_outlive_a_trim_and_count_once(
    outcome: Callable[[], None],
) -> None:
    outcome()


def time_ms() -> int:
    return int(time.time() * 1000)


def send(sender: Sender, messages: Messages, count: int, *, but: int | None = None) -> None:
    """Send so many messages, of which some repeat earlier ids, to all partitions, or all but one;
    wait until they are stored."""
    while count:
        message = messages.next(time_ms())
        if message.partition != but:
            sender.send(message)
            count -= 1
    sender.flush()


def flush_without_checkpoint(site: Site, sender: Sender, messages: Messages) -> list[int]:
    """A worker flushes all that is sent and dies; returns where its last checkpoint was."""
    worker = site.start_worker_without_checkpoints(BUILD)
    checkpointed = committed(site.kafka, BUILD)
    # What will be trimmed away has no ids, and is not refused: nobody could know it any more.
    for partition in range(PARTITIONS):
        for _ in range(MARKERS):
            sender.send(marker(partition))
    send(sender, messages, RECORDS, but=SHORT)
    ends = log_ends(site.kafka)
    site.wait_flushed(BUILD)
    worker.kill()
    wait_until(lambda: not members(site.kafka, BUILD), "the group is empty", timeout_s=60)
    assert committed(site.kafka, BUILD) == checkpointed
    assert all(at + MARKERS <= end for at, end in zip(checkpointed, ends, strict=True))
    return checkpointed


def marker(partition: int) -> Message:
    event = Event(f"{FAMILY}:marker", 1, time_ms(), "eu", "m", None)
    return Message(partition, json.dumps(event.document()).encode(), [event], [], is_frame=False)


def send_what_will_be_lost(kafka: str) -> int:
    """Records that nobody counts before they are trimmed away; returns the offset after them."""
    for _ in range(MARKERS):
        produce(kafka, SHORT, marker(SHORT).value)
    return log_ends(kafka)[SHORT]


def send_refused(kafka: str, now_ms: int) -> Place:
    """A record that comes two days too late, and so becomes a dead letter."""
    late = {"counter": f"{FAMILY}:retried", "at": now_ms - 2 * 86_400_000}
    return produce(kafka, SHORT, json.dumps(late).encode())


def retry_twice(kafka: str, refused: Place, sender: Sender) -> None:
    """The dead letter comes again two times, mended; it must count once."""
    event = Event(f"{FAMILY}:retried", 5, time_ms(), "eu", "m", None)
    header = f"{refused[0]}/0/{refused[1]}"
    for _ in range(2):
        produce(kafka, SHORT, json.dumps(event.document()).encode(), {"tally-retry": header})
    sender.truth.add(event)


def produce(
    kafka: str, partition: int, value: bytes, headers: dict[str, Any] | None = None
) -> Place:
    """Append one record; its offset and the log's time of it."""
    landed: list[Place] = []

    def on_delivery(error: object, record: Any) -> None:
        assert error is None, error
        landed.append((record.offset(), record.timestamp()[1]))

    producer = Producer({"bootstrap.servers": kafka, "log_level": 0})
    producer.produce(TOPIC, value, partition=partition, headers=headers, on_delivery=on_delivery)
    assert producer.flush(20) == 0
    return landed[0]


def refuse_while_somebody_is_in_the_group(site: Site) -> None:
    """As long as the group has a member nothing is written, neither offsets nor records."""
    before = state(site)
    group = group_of(BUILD)
    command = [sys.executable, "-m", "tests.integration.log.members", site.kafka, TOPIC, group]
    command += ["false"]  # It commits nothing.
    # A process that is killed: closing such a client in this one may hang for ever, since the
    # committed offsets are no longer in the log.
    with Process(command, output_path=site.folder / "somebody-else.txt") as member:
        member.wait_for_line(r"^assigned", timeout_s=START_TIMEOUT_S)
        done = site.tally.run_process("accept-log", code=1)
    wait_until(lambda: not members(site.kafka, BUILD), "the group is empty", timeout_s=60)
    assert f"workers of group {group} run" in done.stderr
    assert "stop all of them" in done.stderr
    assert state(site) == before


def state(site: Site) -> list[list[int]]:
    return [
        log_ends(site.kafka),
        log_ends(site.kafka, changelog_of(BUILD)),
        committed(site.kafka, BUILD),
    ]


def accept(site: Site) -> Any:
    """What the command says that it did."""
    accepted, again = (
        json.loads(site.tally.run_process("accept-log", "--json").stdout)["accepted"]
        for _ in range(2)
    )
    assert again == []
    return accepted
