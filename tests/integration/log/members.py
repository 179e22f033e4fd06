"""Members of a consumer group that remember what happened to them.

Run as a program, one member in a process of its own, so that a test can kill it.
"""

import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

from tests.integration.log.clients import QUIET, SHORT_SESSION_S, TIMEOUT_S, Clients

EAGER, COOPERATIVE = "range", "cooperative-sticky"


class Member:
    """A subscribed consumer with its partitions, rebalances, records and errors."""

    def __init__(
        self,
        clients: Clients,
        topic: str,
        group: str,
        *,
        strategy: str = EAGER,
        config: dict[str, Any] | None = None,
    ) -> None:
        self.partitions: set[int] = set()
        self.assigned: list[set[int]] = []
        self.revoked: list[set[int]] = []
        self.messages: list[Message] = []
        self.errors: list[KafkaError] = []
        given = {"partition.assignment.strategy": strategy, **(config or {})}
        self.consumer: Consumer = clients.consumer(group, given)
        self.consumer.subscribe([topic], on_assign=self._on_assign, on_revoke=self._on_revoke)

    def poll(self) -> None:
        """Serve the group and take the records and errors there are; blocks 10 ms at most."""
        for message in self.consumer.consume(10, timeout=0.01):
            error = message.error()
            if error is None:
                self.messages.append(message)
            else:
                self.errors.append(error)

    def _on_assign(self, _: Consumer, places: list[TopicPartition]) -> None:
        gained = {place.partition for place in places}
        self.assigned.append(gained)
        self.partitions |= gained

    def _on_revoke(self, _: Consumer, places: list[TopicPartition]) -> None:
        gone = {place.partition for place in places}
        self.revoked.append(gone)
        self.partitions -= gone


def poll_until(
    members: Sequence[Member],
    condition: Callable[[], bool],
    what: str,
    *,
    timeout_s: float = TIMEOUT_S,
) -> None:
    """Serve all members in turn until the condition holds; fail after the time-out."""
    deadline_s = time.monotonic() + timeout_s
    while not condition():
        for member in members:
            member.poll()
        if time.monotonic() > deadline_s:
            held = [sorted(member.partitions) for member in members]
            errors = [str(error) for member in members for error in member.errors]
            raise AssertionError(f"{what}: not within {timeout_s:g} s; {held=} {errors=}")


def shared_out(members: Sequence[Member], partitions: int) -> bool:
    """True when every partition is held by one member and none holds two more than another.

    A cooperative group may take several rebalances to get there, and hold everything unevenly
    in between.
    """
    held = [partition for member in members for partition in member.partitions]
    shares = [len(member.partitions) for member in members]
    return sorted(held) == list(range(partitions)) and max(shares) - min(shares) <= 1


def main(
    bootstrap: str,
    topic: str,
    group: str,
    commits: str = "true",
    session_s: str = str(SHORT_SESSION_S),
) -> None:
    """Join, print each assignment, and serve until killed."""

    def tell(_: Consumer, places: list[TopicPartition]) -> None:
        print("assigned", ",".join(str(place.partition) for place in places), flush=True)

    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": commits,
            "session.timeout.ms": int(session_s) * 1000,
            "heartbeat.interval.ms": 300,
            **QUIET,
        }
    )
    consumer.subscribe([topic], on_assign=tell)
    while True:
        consumer.poll(0.1)


if __name__ == "__main__":
    main(*sys.argv[1:])
