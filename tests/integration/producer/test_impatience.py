"""A message that waited too long is given up, and no other is stored twice because of it.

librdkafka gives a message up by beginning a new epoch of its producer. Messages of other partitions
that the log has, and whose acknowledgement was on its way, are then sent again under the new epoch:
the log cannot know them, and has them twice (confluentinc/librdkafka#4953).
"""

import json
import os
import signal
import time
from collections import Counter

import pytest

from pipeline import topics
from pipeline.clock import SystemClock
from pipeline.producer.client import Client
from schemas.addresses import KafkaAddress
from tests.integration.producer.reading import rows
from tests.kit.embedded import EmbeddedLog
from tests.kit.processes import wait_until

PATIENCE_S = 8.0
WORD_S = 30
Word = int | str


def send(by: Client, partition: int, counter: str) -> list[Word]:
    words: list[Word] = []
    value = json.dumps({"counter": counter}).encode()
    by.send(
        topics.INCREMENTS, partition, value, None, on_stored=words.append, on_unknown=words.append
    )
    return words


def word(words: list[Word]) -> Word:
    wait_until(lambda: words, "Kafka's word", timeout_s=WORD_S)
    [one] = words
    return one


@pytest.mark.parametrize("attempt", range(3))
def test_what_is_given_up_doubles_nothing_else(own_log: EmbeddedLog, attempt: int) -> None:
    client = Client(KafkaAddress(own_log.bootstrap), SystemClock(), delivery_timeout_s=PATIENCE_S)
    try:
        for partition in range(8):
            assert isinstance(word(send(client, partition, "impatience:warm")), int)
        os.kill(own_log.pid, signal.SIGSTOP)
        try:
            given_up = [send(client, 0, "impatience:given up")]
            time.sleep(PATIENCE_S * 0.6)
            others = {n: send(client, n, f"impatience:other {n}") for n in range(1, 8)}
            wait_until(lambda: given_up[0], "the first is given up", timeout_s=WORD_S)
        finally:
            os.kill(own_log.pid, signal.SIGCONT)
        told = {f"impatience:other {n}": word(words) for n, words in others.items()}
        after = word(send(client, 0, "impatience:after"))
    finally:
        client.close()

    assert isinstance(word(given_up[0]), str)
    assert isinstance(after, int)
    found = Counter(row.event["counter"] for row in rows(own_log.bootstrap, "impatience"))
    assert [counter for counter, times in found.items() if times > 1] == ["impatience:warm"]
    stored = {counter for counter, one in told.items() if isinstance(one, int)}
    assert stored <= set(found)
