"""A client that knows no broker any more asks nobody again: it is given up, and another goes on.

Chaos found one that had waited so for a quarter of an hour, and would have for as long as it was
told to be patient (confluentinc/librdkafka#5301). What brought it there could not be played again,
so here its statistics are told by the test.
"""

from pipeline import topics
from pipeline.clock import SystemClock
from pipeline.producer.client import Client
from schemas.addresses import KafkaAddress
from tests.kit.embedded import EmbeddedLog
from tests.kit.processes import wait_until

PATIENCE_S = 600.0
NO_BROKERS = '{"brokers": {}}'
SOME = '{"brokers": {"127.0.0.1:1/bootstrap": {}}}'


def send(client: Client) -> list[int | str]:
    words: list[int | str] = []
    event = b'{"counter": "likes:a"}'
    client.send(topics.INCREMENTS, 0, event, None, on_stored=words.append, on_unknown=words.append)
    return words


def heard(words: list[int | str]) -> int | str:
    wait_until(lambda: words, "word of a message", timeout_s=60)
    return words[0]


def test_what_a_client_without_brokers_has_is_given_up_and_the_next_message_is_stored(
    own_log: EmbeddedLog,
) -> None:
    client = Client(
        KafkaAddress(own_log.bootstrap),
        SystemClock(),
        delivery_timeout_s=PATIENCE_S,
        settings={"statistics.interval.ms": 0},
    )
    try:
        assert heard(send(client)) == 0
        own_log.kill()
        waiting, lost = send(client), client._connection
        for text in (NO_BROKERS, SOME, NO_BROKERS):
            lost._on_statistics(text)
        assert not lost.is_stale
        lost._on_statistics(NO_BROKERS)
        assert isinstance(heard(waiting), str)
        own_log.start()
        assert heard(send(client)) == 1
        assert client._connection is not lost
    finally:
        client.close()
