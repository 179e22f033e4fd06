"""Consumer groups: members share the partitions, again whenever somebody comes or goes."""

import sys
import time
from pathlib import Path

import pytest
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # documented, though not in its __all__
    NewPartitions,
)

from tests.integration.log.clients import SESSION_S, Clients, offset_of, unique
from tests.integration.log.members import COOPERATIVE, EAGER, Member, poll_until, shared_out
from tests.kit.processes import Process
from tests.kit.tally import START_TIMEOUT_S

STRATEGIES = [EAGER, COOPERATIVE]

DOOMED_SESSION_S = 10
"""Of a member that is killed: half of it is longer than a busy machine stands still."""


def test_one_member_gets_every_partition_and_every_record(clients: Clients) -> None:
    topic, group = clients.topic(partitions=3), unique("group")
    for partition in range(3):
        clients.produce(topic, [b"value"] * 10, partition=partition)
    member = Member(clients, topic, group)
    poll_until([member], lambda: len(member.messages) == 30, "all records")
    assert member.assigned == [{0, 1, 2}]
    for partition in range(3):
        read = [offset_of(m) for m in member.messages if m.partition() == partition]
        assert read == list(range(10))


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_second_and_a_third_member_get_their_share(clients: Clients, strategy: str) -> None:
    topic, group = clients.topic(partitions=6), unique("group")
    members: list[Member] = []
    for count in (1, 2, 3):
        members.append(Member(clients, topic, group, strategy=strategy))
        poll_until(members, lambda: shared_out(members, 6), f"{count} members share")
    assert [len(member.partitions) for member in members] == [2, 2, 2]


def test_a_cooperative_member_keeps_what_it_need_not_give_away(clients: Clients) -> None:
    topic, group = clients.topic(partitions=4), unique("group")
    first = Member(clients, topic, group, strategy=COOPERATIVE)
    poll_until([first], lambda: first.partitions == {0, 1, 2, 3}, "the first has all")
    second = Member(clients, topic, group, strategy=COOPERATIVE)
    poll_until([first, second], lambda: shared_out([first, second], 4), "two share")
    assert sum(len(gone) for gone in first.revoked) == 2


def test_an_eager_member_gives_everything_back_first(clients: Clients) -> None:
    topic, group = clients.topic(partitions=4), unique("group")
    first = Member(clients, topic, group, strategy=EAGER)
    poll_until([first], lambda: first.partitions == {0, 1, 2, 3}, "the first has all")
    second = Member(clients, topic, group, strategy=EAGER)
    poll_until([first, second], lambda: shared_out([first, second], 4), "two share")
    assert first.revoked == [{0, 1, 2, 3}]


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_the_rest_takes_over_at_once_when_a_member_leaves(clients: Clients, strategy: str) -> None:
    topic, group = clients.topic(partitions=4), unique("group")
    stays = Member(clients, topic, group, strategy=strategy)
    leaves = Member(clients, topic, group, strategy=strategy)
    poll_until([stays, leaves], lambda: shared_out([stays, leaves], 4), "two share")
    left_s = time.monotonic()
    leaves.consumer.close()
    poll_until([stays], lambda: stays.partitions == {0, 1, 2, 3}, "the rest takes over")
    assert time.monotonic() - left_s < SESSION_S


@pytest.mark.timeout(300)
def test_the_rest_takes_over_when_a_member_dies(clients: Clients, tmp_path: Path) -> None:
    topic, group = clients.topic(partitions=2), unique("group")
    command = [sys.executable, "-m", "tests.integration.log.members"]
    command += [clients.bootstrap, topic, group, "true", str(DOOMED_SESSION_S)]
    with Process(command, output_path=tmp_path / "member.txt") as doomed:
        doomed.wait_for_line("^assigned 0,1$", timeout_s=START_TIMEOUT_S)
        survivor = Member(clients, topic, group)
        poll_until([survivor], lambda: len(survivor.partitions) == 1, "two share")
        doomed.kill()
        died_s = time.monotonic()
        poll_until([survivor], lambda: survivor.partitions == {0, 1}, "the survivor takes over")
    took_s = time.monotonic() - died_s
    assert took_s > DOOMED_SESSION_S / 2


def test_groups_do_not_disturb_each_other(clients: Clients) -> None:
    topic = clients.topic(partitions=2)
    clients.produce(topic, [b"value"] * 5)
    members = [Member(clients, topic, unique("group")) for _ in range(3)]
    poll_until(members, lambda: all(len(m.messages) == 5 for m in members), "each reads all")
    assert [member.partitions for member in members] == [{0, 1}] * 3


def test_new_partitions_are_shared_out(clients: Clients) -> None:
    topic, group = clients.topic(partitions=1), unique("group")
    member = Member(clients, topic, group, config={"topic.metadata.refresh.interval.ms": 500})
    poll_until([member], lambda: member.partitions == {0}, "one partition")
    clients.admin.create_partitions([NewPartitions(topic, 3)])[topic].result(20)
    poll_until([member], lambda: member.partitions == {0, 1, 2}, "the new ones are assigned")


def test_records_are_read_once_over_a_rebalance_with_commits(clients: Clients) -> None:
    topic, group = clients.topic(partitions=4), unique("group")
    for partition in range(4):
        clients.produce(topic, [b"%d" % n for n in range(50)], partition=partition)
    config = {"enable.auto.commit": True, "auto.commit.interval.ms": 100}
    first = Member(clients, topic, group, config=config)
    poll_until([first], lambda: len(first.messages) >= 60, "some are read")
    second = Member(clients, topic, group, config=config)
    both = [first, second]
    poll_until(both, lambda: shared_out(both, 4), "two share")
    poll_until(both, lambda: len(first.messages) + len(second.messages) >= 200, "all are read")
    quiet_until_s = time.monotonic() + 0.5
    poll_until(both, lambda: time.monotonic() > quiet_until_s, "nothing comes twice")
    read = [(m.partition(), m.offset()) for member in both for m in member.messages]
    assert sorted(read) == [(partition, n) for partition in range(4) for n in range(50)]
