"""Static members: a restart under the same instance id is no rebalance; a twin fences the first."""

import time

from confluent_kafka import KafkaError

from tests.integration.log.clients import SESSION_S, SHORT_SESSION_S, Clients, unique
from tests.integration.log.members import Member, poll_until, shared_out


def static(
    clients: Clients, topic: str, group: str, instance: str, session_s: int = SESSION_S
) -> Member:
    config = {"group.instance.id": instance, "session.timeout.ms": session_s * 1000}
    return Member(clients, topic, group, config=config)


def test_a_static_member_restarts_without_a_rebalance(clients: Clients) -> None:
    topic, group = clients.topic(partitions=4), unique("group")
    one, two = (static(clients, topic, group, name) for name in ("one", "two"))
    poll_until([one, two], lambda: shared_out([one, two], 4), "two share")
    held = set(two.partitions)
    rebalances = len(one.assigned)
    two.consumer.close()
    again = static(clients, topic, group, "two")
    poll_until([one, again], lambda: bool(again.partitions), "the restarted member is back")
    assert again.partitions == held
    quiet_until_s = time.monotonic() + 1
    poll_until([one, again], lambda: time.monotonic() > quiet_until_s, "a quiet second")
    assert len(one.assigned) == rebalances
    assert shared_out([one, again], 4)


def test_a_static_member_that_stays_away_loses_its_partitions(clients: Clients) -> None:
    topic, group = clients.topic(partitions=4), unique("group")
    one = static(clients, topic, group, "one")
    two = static(clients, topic, group, "two", SHORT_SESSION_S)
    poll_until([one, two], lambda: shared_out([one, two], 4), "two share")
    two.consumer.close()
    poll_until([one], lambda: one.partitions == {0, 1, 2, 3}, "the rest takes over")


def test_a_twin_with_the_same_instance_id_fences_the_first(clients: Clients) -> None:
    topic, group = clients.topic(partitions=2), unique("group")
    first = static(clients, topic, group, "same")
    poll_until([first], lambda: first.partitions == {0, 1}, "the first has all")
    twin = static(clients, topic, group, "same")
    poll_until([first, twin], lambda: bool(first.errors), "the first is fenced")
    poll_until([twin], lambda: twin.partitions == {0, 1}, "the twin has all")
    fenced = {KafkaError.FENCED_INSTANCE_ID, KafkaError._FATAL}
    assert {error.code() for error in first.errors} <= fenced
    assert "fenced" in str(first.errors[0]).lower()
    assert twin.errors == []
