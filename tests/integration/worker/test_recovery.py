"""A restarted worker goes on from the changelog, and not without it."""

import time
from collections.abc import Callable

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # documented, though not in its __all__
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)

from tests.integration.worker.events import PARTITIONS, Event, Message, frame
from tests.integration.worker.offsets import changelog_of, log_ends
from tests.integration.worker.scenarios import ONE_BROKER, proved_by
from tests.integration.worker.site import Site
from tests.integration.worker.stream import Sender

pytestmark = pytest.mark.timeout(600)  # the first test waits for all scenarios

CELLS = 4_000


def kill_with_many_cells(site: Site, seed: int) -> None:
    """Cells are checkpointed, raised again, and the worker is killed before it can checkpoint."""
    build, at_ms = site.new_build(), now_ms()
    worker = site.start_worker(build)
    worker.wait_ready()
    sender = Sender(site.kafka)
    send_to_many("many-cells", 1, at_ms, sender)
    site.settle(build)
    send_to_many("many-cells", 10, at_ms, sender)
    worker.kill()
    send_to_many("many-cells", 100, at_ms, sender)
    restarted = site.start_worker(build)
    restarted.wait_ready()
    send_to_many("many-cells", 1000, at_ms, sender)
    site.settle(build)
    site.expect(build, "many-cells", sender)
    assert set(sender.truth.totals().values()) == {1111}
    site.stop([restarted])


def lose_the_changelog(site: Site, seed: int) -> None:
    """Without the changelog's records the next worker must refuse instead of counting on."""
    build, at_ms = site.new_build(), now_ms()
    worker = site.start_worker(build)
    worker.wait_ready()
    sender = Sender(site.kafka)
    send_to_many("lost-changelog", 1, at_ms, sender)
    site.settle(build)
    site.stop([worker])
    before = site.counts(build, "lost-changelog")
    delete_records(site.kafka, changelog_of(build))
    send_to_many("lost-changelog", 1, at_ms, sender)
    refusing = site.start_worker(build)
    assert refusing.wait(timeout_s=120) == 1, refusing.output()
    assert "position record" in refusing.output()
    assert site.counts(build, "lost-changelog") == before


@ONE_BROKER
@proved_by(kill_with_many_cells)
def test_cells_of_a_killed_worker_go_on_growing_from_what_the_changelog_holds(
    outcome: Callable[[], None],
) -> None:
    outcome()


@ONE_BROKER
@proved_by(lose_the_changelog)
def test_a_worker_whose_changelog_is_gone_refuses_and_names_the_position_record(
    outcome: Callable[[], None],
) -> None:
    outcome()


def now_ms() -> int:
    return int(time.time() * 1000)


def send_to_many(family: str, delta: int, at_ms: int, sender: Sender) -> None:
    """The same delta to each of many counters, in one frame per partition; returns when stored."""
    for partition in range(PARTITIONS):
        events = [
            Event(f"{family}:{number}", delta, at_ms, "eu", "m", None)
            for number in range(partition, CELLS, PARTITIONS)
        ]
        value = frame([event.document() for event in events])
        sender.send(Message(partition, value, events, [], is_frame=True))
    sender.flush()


def delete_records(kafka: str, topic: str) -> None:
    """Delete everything a compacted topic holds; brokers allow it once it is not compacted."""
    ends = log_ends(kafka, topic)
    assert any(ends)
    admin = AdminClient({"bootstrap.servers": kafka, "log_level": 0})
    entry = ConfigEntry("cleanup.policy", "delete", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    admin.incremental_alter_configs([resource])[resource].result(timeout=20)
    futures = admin.delete_records(
        [TopicPartition(topic, number, end) for number, end in enumerate(ends) if end]
    )
    for future in futures.values():
        future.result(timeout=20)
