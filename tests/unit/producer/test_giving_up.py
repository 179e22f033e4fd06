"""Who gives up is done: nothing more is sent, and whoever sends is told so at once.

The client here is a real one, of a Kafka without an address: it sends nothing, and so is soon full.
"""

import threading

from pipeline import topics
from pipeline.clock import SystemClock
from pipeline.errors import TryAgainError
from pipeline.producer.client import Client
from schemas.addresses import KafkaAddress
from tests.kit.processes import wait_until

PATIENCE_S = 600.0
DONE_S = 10.0
ROOM, MESSAGES = 10, 40


def test_who_waits_for_room_when_all_is_given_up_ends_and_fills_the_room_no_more() -> None:
    """A producer that was closed went on sending until its delivery time-out was over."""
    client = Client(
        KafkaAddress(""),
        SystemClock(),
        delivery_timeout_s=PATIENCE_S,
        # Statistics would tell that there are no brokers, and all would be given up by itself.
        settings={"queue.buffering.max.messages": ROOM, "statistics.interval.ms": 0},
    )
    taken: list[int] = []
    unknown: list[str] = []
    refused: list[int] = []

    def send() -> None:
        for number in range(MESSAGES):
            try:
                client.send(
                    topics.INCREMENTS,
                    0,
                    b"x" * 50_000,
                    None,
                    on_stored=lambda _offset: None,
                    on_unknown=unknown.append,
                )
            except TryAgainError:
                refused.append(number)
            else:
                taken.append(number)

    sender = threading.Thread(target=send, daemon=True)
    try:
        sender.start()
        wait_until(lambda: len(taken) == ROOM, "the client is full")
        client.give_up()
        sender.join(DONE_S)
        assert not sender.is_alive()
    finally:
        client.close()

    # One more may have been on its way into the client when all of that was given up.
    assert len(taken) <= ROOM + 1
    assert len(unknown) == len(taken)
    assert taken + refused == list(range(MESSAGES))
