"""A log that is not the one that was counted is named, and nothing is counted from it."""

import json
import time
from collections.abc import Callable

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
)

from tests.integration.worker.events import PARTITIONS, Event, Message, Messages
from tests.integration.worker.offsets import committed, group_of, log_ends
from tests.integration.worker.scenarios import ONE_BROKER, proved_by
from tests.integration.worker.site import Site, fresh_site, make_topic_anew
from tests.integration.worker.stream import TOPIC, Sender
from tests.kit.processes import Process
from tests.kit.tally import TALLY

pytestmark = pytest.mark.timeout(600)  # the first test waits for all scenarios

FAMILY = "other-log"
RECORDS = 400
KEPT, LOST = 1, 2
"""The build whose offsets outlive the log, and the build that loses them with it."""


def make_the_log_anew(site: Site, seed: int) -> None:
    """On a site of its own: count, make the topic anew, and offer first a shorter log, then one of
    the same length, then accept it."""
    with fresh_site(site.broker.name, site.folder / "other-log") as own:
        sender = Sender(own.kafka)
        repeated = [with_id(number) for number in range(PARTITIONS)]
        send_all(sender, repeated)
        count_into_both(own, sender, Messages(FAMILY, seed))
        before = own.counts(KEPT, FAMILY)
        counted = committed(own.kafka, KEPT)
        make_topic_anew(own.kafka)
        messages = Messages(FAMILY, seed + 1)
        sender.connect()
        send(sender, messages, RECORDS // 8)
        # Kafka can acknowledge a record to a topic of the same name that it is still deleting, and
        # drop it; what is not in the log cannot be counted by anybody.
        assert sum(log_ends(own.kafka)) == RECORDS // 8
        # Brokers forget the offsets of a topic with the topic; the changelog still knows them.
        refuse(own, LOST, "ends at")
        accept(own, LOST)
        put_offsets_back(own, KEPT, counted)
        refuse(own, KEPT, "ends at")
        fill_up(sender, messages, own, counted)
        assert log_ends(own.kafka) == counted
        refuse(own, KEPT, "another record batch")
        assert own.counts(KEPT, FAMILY) == own.counts(LOST, FAMILY) == before
        accept(own, KEPT)
        # The truth knows their ids, and so must both builds, though the log that had them is gone.
        send_all(sender, repeated)
        count_into_both(own, sender, messages)


@ONE_BROKER
@proved_by(make_the_log_anew)
def test_another_log_is_named_and_counted_on_top_of_the_old_counts_once_accepted(
    outcome: Callable[[], None],
) -> None:
    outcome()


def count_into_both(site: Site, sender: Sender, messages: Messages) -> None:
    """A worker for each build counts what is there and some more; both must be exact."""
    workers = [site.start_worker(build) for build in (KEPT, LOST)]
    for worker in workers:
        worker.wait_ready()
    send(sender, messages, RECORDS)
    for build in (KEPT, LOST):
        site.settle(build)
        site.expect(build, FAMILY, sender)
    site.stop(workers)


def send(sender: Sender, messages: Messages, count: int) -> None:
    """Send so many messages and wait until all are stored."""
    for _ in range(count):
        sender.send(messages.next(int(time.time() * 1000)))
    sender.flush()


def with_id(partition: int) -> Message:
    """An event that its producer may send again."""
    at_ms = int(time.time() * 1000)
    event = Event(f"{FAMILY}:repeated", 7, at_ms, "eu", "m", f"again-{partition}")
    return Message(partition, json.dumps(event.document()).encode(), [event], [], is_frame=False)


def send_all(sender: Sender, messages: list[Message]) -> None:
    """Send these messages and wait until all are stored."""
    for message in messages:
        sender.send(message)
    sender.flush()


def fill_up(sender: Sender, messages: Messages, site: Site, ends: list[int]) -> None:
    """Send until every partition holds as many records as before."""
    now = log_ends(site.kafka)
    left = [end - at for end, at in zip(ends, now, strict=True)]
    assert all(count > 0 for count in left), (now, ends)
    while any(left):
        message = messages.next(int(time.time() * 1000))
        if left[message.partition]:
            left[message.partition] -= 1
            sender.send(message)
    sender.flush()


def refuse(site: Site, build: int, why: str) -> None:
    """The build's next worker must end with exit code 1 and say why and what to do."""
    worker = site.start_worker(build)
    assert worker.wait(timeout_s=120) == 1, worker.output()
    output = worker.output()
    assert why in output, output
    assert "tally accept-log" in output, output


def accept(site: Site, build: int) -> None:
    """Tell Tally that this log is the one to go on with."""
    env = {**site.tally.env, "TALLY_BUILD": str(build)}
    path = site.folder / f"accept-{build}.txt"
    with Process([*TALLY, "accept-log"], output_path=path, env=env) as command:
        assert command.wait(timeout_s=120) == 0, command.output()
        assert command.output().count("it is another log: ") == PARTITIONS, command.output()


def put_offsets_back(site: Site, build: int, offsets: list[int]) -> None:
    """Commit offsets as they were, as if the log had been truncated and not deleted."""
    places = [TopicPartition(TOPIC, number, at) for number, at in enumerate(offsets)]
    request = ConsumerGroupTopicPartitions(group_of(build), places)
    admin = AdminClient({"bootstrap.servers": site.kafka, "log_level": 0})
    admin.alter_consumer_group_offsets([request])[group_of(build)].result(timeout=20)
