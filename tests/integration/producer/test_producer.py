"""What the producer accepts is in the log once, and its receipts say where."""

import asyncio
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pipeline import topics
from pipeline.errors import BadInputError, OperatorError
from pipeline.producer import (
    AsyncProducer,
    BufferFullError,
    NotStoredError,
    Producer,
    Receipt,
    Unknown,
    UnknownDeliveryError,
    client,
)
from schemas.addresses import KafkaAddress
from schemas.events import check_event
from tests.integration.producer.reading import TOPIC, rows, sums
from tests.kit.brokers import Broker
from tests.kit.embedded import EmbeddedLog
from tests.kit.processes import wait_until

AT_MS = 1_700_000_000_000
PATIENCE_S = 60
IMPATIENCE_S = 6.0
"""After so long a delivery is given up; while the broker is there, it takes less on any machine."""

embedded_only = pytest.mark.parametrize("shared_log", ["embedded"], indirect=True)
"""Where the broker is only away: it does not matter which one, and Kafka takes long to start."""


def events_of(family: str, count: int, *, seed: int = 0) -> list[dict[str, Any]]:
    """Events of all sorts, spread over counters, minutes and regions."""
    return [
        {
            "counter": f"{family}:{n % 7}",
            "delta": -2 if n % 11 == 0 else 1 + n % 3,
            "at": AT_MS + seed + n * 100,
            "region": ("", "eu", "us")[n % 3],
            "member": f"m{n}" if n % 4 == 1 else None,
            "id": f"i{seed}-{n}" if n % 8 == 2 else None,
        }
        for n in range(count)
    ]


def test_increments_of_several_threads_arrive_once(log: Broker) -> None:
    each = [events_of("threads", 3_000, seed=number) for number in range(4)]
    with Producer(log.bootstrap) as producer:

        def send(events: list[dict[str, Any]]) -> None:
            for event in events[:2_000]:
                producer.increment(**event)
            tail = events[2_000:]
            producer.increment_many({name: [event[name] for event in tail] for name in tail[0]})

        with ThreadPoolExecutor(4) as pool:
            list(pool.map(send, each))

    assert producer.stored == 12_000
    assert sums(rows(log.bootstrap, "threads")) == sums([one for part in each for one in part])


def test_receipts_say_where_increments_are(log: Broker) -> None:
    with Producer(log.bootstrap, linger=0.005) as producer:
        single = {n: producer.increment(f"receipts:{n}", at=AT_MS) for n in range(50)}
        many = producer.increment_many(
            {"counter": ["receipts:a", "receipts:b"], "at": [AT_MS, AT_MS]}
        )
        places = {f"receipts:{n}": receipt.places(PATIENCE_S) for n, receipt in single.items()}
        both = many.places(PATIENCE_S)

    found = {
        row.event["counter"]: (row.partition, row.offset) for row in rows(log.bootstrap, "receipts")
    }
    for counter, place in places.items():
        assert list(place.items()) == [found[counter]]
    assert both == {
        partition: max(o for p, o in (found["receipts:a"], found["receipts:b"]) if p == partition)
        for partition, _ in (found["receipts:a"], found["receipts:b"])
    }


def test_time_is_stamped_at_the_call(log: Broker) -> None:
    before_ms = time.time_ns() // 1_000_000
    with Producer(log.bootstrap, linger=0.5) as producer:
        producer.increment("stamped:a", member="m")
        after_ms = time.time_ns() // 1_000_000

    [row] = rows(log.bootstrap, "stamped")
    assert before_ms <= row.event["at"] <= after_ms


def test_increments_of_one_cell_become_one_row(log: Broker) -> None:
    with Producer(log.bootstrap, linger=5) as producer:
        for _ in range(1_000):
            producer.increment("one:a", 2, at=AT_MS)
            producer.increment("one:a", -1, at=AT_MS)

    assert sorted(row.event["delta"] for row in rows(log.bootstrap, "one")) == [-1_000, 2_000]


def test_a_broker_that_dies_and_comes_back_gets_everything_once(log: Broker) -> None:
    events = events_of("dying", 30_000)
    with Producer(log.bootstrap) as producer:
        for number, event in enumerate(events):
            producer.increment(**event)
            if number in {7_000, 20_000}:
                log.kill()
                log.start()
        assert producer.flush(PATIENCE_S)

    assert producer.unknown == 0
    assert sums(rows(log.bootstrap, "dying")) == sums(events)


@embedded_only
def test_what_is_not_confirmed_in_time_is_unknown_and_never_sent_again(log: Broker) -> None:
    told: list[Unknown] = []
    with Producer(log.bootstrap, delivery_timeout=IMPATIENCE_S, on_unknown=told.append) as producer:
        producer.increment("unknown:before", at=AT_MS).places(PATIENCE_S)
        log.kill()
        receipt = producer.increment("unknown:during", 5, at=AT_MS)
        with pytest.raises(UnknownDeliveryError, match="may have it or not"):
            receipt.places(PATIENCE_S)
        log.start()
        producer.increment("unknown:after", at=AT_MS).places(PATIENCE_S)

    assert producer.unknown == 1
    [unknown] = told
    [row] = unknown.columns().to_pylist()
    assert (unknown.increments, row["counter"], row["delta"]) == (1, "unknown:during", 5)
    # The broker was dead, so here we know better: it is not there, and was not sent again.
    found = {row.event["counter"] for row in rows(log.bootstrap, "unknown")}
    assert found == {"unknown:before", "unknown:after"}


@embedded_only
def test_without_anybody_to_tell_flush_and_leaving_raise(log: Broker) -> None:
    producer = Producer(log.bootstrap, delivery_timeout=IMPATIENCE_S)
    producer.increment("raised:warm", at=AT_MS).places(PATIENCE_S)
    log.kill()
    producer.increment("raised:a", at=AT_MS)
    with pytest.raises(UnknownDeliveryError, match="1 increment was not confirmed"):
        producer.flush(PATIENCE_S)
    assert producer.flush(PATIENCE_S)  # told once
    producer.increment("raised:b", at=AT_MS)
    with pytest.raises(UnknownDeliveryError), producer:
        pass
    with pytest.raises(OperatorError, match="closed"):
        producer.increment("raised:c", at=AT_MS)


@embedded_only
def test_closing_while_the_broker_is_away_leaves_no_receipt_without_word(log: Broker) -> None:
    producer = Producer(log.bootstrap, on_unknown=lambda _: None, linger=0.01)
    producer.increment("closing:warm", at=AT_MS).places(PATIENCE_S)
    log.kill()
    receipts = [producer.increment("closing:a", at=AT_MS + n * 60_000) for n in range(2_000)]

    assert producer.flush(timeout=0.1) is False
    with suppress(NotStoredError):
        producer.close(timeout=0.5)

    for receipt in receipts:
        with pytest.raises((UnknownDeliveryError, NotStoredError)):
            receipt.places(timeout=0)


@pytest.fixture
def stuck(log: Broker, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Producer]]:
    """Makes producers that wait for Kafka's word on their first frame before they pack another."""
    monkeypatch.setattr(client, "IN_FLIGHT_BYTES_MAX", 1)
    made: list[Producer] = []

    def make(**options: Any) -> Producer:
        producer = Producer(log.bootstrap, linger=0.001, waiting_max=100, **options)
        made.append(producer)
        producer.increment("stuck:first", at=AT_MS).places(PATIENCE_S)
        log.kill()
        producer.increment("stuck:second", at=AT_MS)
        wait_until(lambda: not producer.waiting, "the second is packed")
        return producer

    yield make
    for producer in made:
        with suppress(UnknownDeliveryError, NotStoredError):
            producer.close(timeout=0)


@embedded_only
def test_a_full_producer_raises_and_loses_nothing(
    log: Broker, stuck: Callable[..., Producer]
) -> None:
    producer = stuck(when_full="raise")
    for number in range(100):
        producer.increment("full:a", member=f"m{number}", at=AT_MS)
    with pytest.raises(BufferFullError, match="100 increments waiting"):
        producer.increment("full:a")
    with pytest.raises(BufferFullError):
        producer.increment_many({"counter": ["full:a"]})
    log.start()
    assert producer.flush(PATIENCE_S)
    producer.increment("full:a", member="later", at=AT_MS)
    producer.close()

    assert producer.stored == 103
    assert sum(1 for _ in rows(log.bootstrap, "full")) == 101


@embedded_only
def test_a_full_producer_waits_until_there_is_room(
    log: Broker, stuck: Callable[..., Producer]
) -> None:
    producer = stuck()
    for number in range(100):
        producer.increment("waits:a", member=f"m{number}", at=AT_MS)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(producer.increment, "waits:a", member="late", at=AT_MS)
        with pytest.raises(TimeoutError):
            waiting.result(0.2)
        log.start()
        waiting.result(PATIENCE_S).places(PATIENCE_S)
    producer.close()

    assert producer.stored == 103


@embedded_only
def test_who_is_told_of_unknown_ones_may_send_again_but_not_wait(
    stuck: Callable[..., Producer],
) -> None:
    """Nothing is confirmed while it waits, so it would wait for itself."""
    refused = threading.Event()
    producers: list[Producer] = []

    def send_more_and_more(_unknown: Unknown) -> None:
        for number in count():
            try:
                producers[0].increment("again:a", member=f"m{number}", at=AT_MS)
            except BufferFullError:
                refused.set()
                return

    producers.append(stuck(delivery_timeout=IMPATIENCE_S, on_unknown=send_more_and_more))

    assert refused.wait(PATIENCE_S)


@embedded_only
async def test_an_increment_that_is_cancelled_while_it_waits_is_not_sent(
    log: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "IN_FLIGHT_BYTES_MAX", 1)
    async with AsyncProducer(log.bootstrap, waiting_max=1, linger=0.001) as producer:
        await (await producer.increment("cancelled:a", at=AT_MS))
        await asyncio.to_thread(log.kill)
        first = await producer.increment("cancelled:a", at=AT_MS)
        second = await producer.increment("cancelled:a", at=AT_MS + 1)
        for _ in range(3):
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(producer.increment("cancelled:b", at=AT_MS), 0.2)
        await asyncio.to_thread(log.start)
        await first
        await second

    assert {row.event["counter"] for row in rows(log.bootstrap, "cancelled")} == {"cancelled:a"}


def test_more_partitions_are_used_and_nothing_is_lost(tmp_path: Path) -> None:
    broker = EmbeddedLog(tmp_path)
    broker.start()
    try:
        topics.ensure_topics(KafkaAddress(broker.bootstrap), 1, 2)
        with Producer(broker.bootstrap) as producer:
            for number in range(100):
                producer.increment(f"grown:{number}", at=AT_MS)
            assert producer.flush(PATIENCE_S)
            topics.grow(topics.admin_client(KafkaAddress(broker.bootstrap)), TOPIC, 8)

            def is_spread() -> bool:
                receipts = [producer.increment(f"grown:{n}", at=AT_MS) for n in range(100)]
                return len(Receipt.of(receipts).places(PATIENCE_S)) == 8

            wait_until(is_spread, "eight partitions", timeout_s=PATIENCE_S)
        found = sum(row.event["delta"] for row in rows(broker.bootstrap, "grown"))
    finally:
        broker.kill()

    assert (producer.not_stored, producer.unknown) == (0, 0)
    assert found == producer.stored


def run_script(script: str, log: Broker) -> subprocess.CompletedProcess[str]:
    """A program of its own; it is told where the log is."""
    return subprocess.run(
        [sys.executable, "-c", script, log.bootstrap],
        check=False,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )


LEFT_OPEN = """
import sys
from pipeline.producer import Producer
producer = Producer(sys.argv[1])
for number in range(100):
    producer.increment("left:a", member=f"m{number}")
"""

FORKED = """
import os, sys
from pipeline.errors import OperatorError
from pipeline.producer import Producer
with Producer(sys.argv[1]) as producer:
    producer.increment("forked:a")
    if os.fork() == 0:
        try:
            producer.increment("forked:child")
        except OperatorError as error:
            os._exit(7 if "process that made it" in str(error) else 1)
        os._exit(2)
    _, status = os.wait()
    sys.exit(os.waitstatus_to_exitcode(status))
"""


@embedded_only
def test_a_producer_that_nobody_closes_is_closed_at_the_end(log: Broker) -> None:
    done = run_script(LEFT_OPEN, log)

    assert done.returncode == 0, done.stderr
    assert "was not closed" in done.stderr
    assert sum(1 for _ in rows(log.bootstrap, "left")) == 100


@embedded_only
def test_a_forked_child_is_told_to_make_its_own(log: Broker) -> None:
    done = run_script(FORKED, log)

    assert done.returncode == 7, done.stderr
    assert [row.event["counter"] for row in rows(log.bootstrap, "forked")] == ["forked:a"]


@pytest.mark.parametrize(
    "options",
    [{"linger": -1}, {"waiting_max": 0}, {"delivery_timeout": 0.0004}, {"when_full": "x"}],
)
def test_options_that_make_no_sense_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(BadInputError):
        Producer("127.0.0.1:1", **options)


async def test_the_asyncio_face(log: Broker) -> None:
    async with AsyncProducer(log.bootstrap, waiting_max=50, linger=0.01) as producer:
        accepted = [
            await producer.increment("async:a", member=f"m{number}", at=AT_MS)
            for number in range(200)
        ]
        places = await asyncio.gather(*accepted)
        many = await (await producer.increment_many({"counter": ["async:b"], "at": [AT_MS]}))
        assert await producer.flush(PATIENCE_S)

    found = list(rows(log.bootstrap, "async"))
    stored = {(row.partition, row.offset) for row in found}
    assert len(found) == 201
    assert {place for each in [*places, many] for place in each.items()} == stored


FIELD = st.one_of(
    st.none(),
    st.text(max_size=8),
    st.integers(),
    st.floats(),
    st.booleans(),
    st.sampled_from(
        ["a:b", "a:", ":b", "*", "", "é" * 200, "x" * 300, "a\0:b", "a:\ud800", b"a:b"]
    ),
    st.lists(st.text(max_size=2), max_size=2),
    st.sampled_from([0, 1, 2**40, 2**40 + 1, -(2**40), 1.0, 1.5, 4_294_967_295_999, -1, True]),
    st.sampled_from(["2026-01-01T00:00:00Z", "2026-01-01"]),
)


@settings(
    max_examples=400, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    fields=st.fixed_dictionaries(
        {"counter": st.one_of(st.just("checks:a"), st.just("checks:b"), FIELD)},
        optional=dict.fromkeys(("delta", "at", "member", "region", "id"), FIELD),
    )
)
def test_an_increment_is_refused_at_the_call_just_as_the_model_would(
    checking: Producer, fields: dict[str, Any]
) -> None:
    assert refusal(lambda: checking.increment(**fields)) == refusal(lambda: check_event(fields))


def refusal(call: Callable[[], object]) -> str | None:
    try:
        call()
    except BadInputError as error:
        return str(error)
    return None


@pytest.fixture
def checking(log: Broker) -> Iterator[Producer]:
    """A producer with counters it already knows, whose checks are shorter."""
    with Producer(log.bootstrap) as producer:
        producer.increment("checks:a", region="eu")
        yield producer


def test_a_hint_spreads_a_counter_within_seconds(log: Broker) -> None:
    with Producer(log.bootstrap, strategy="round-robin") as producer:
        producer.hint("hinted:a", n=4)

        def is_spread() -> bool:
            receipts = [producer.increment("hinted:a", member=f"m{n}") for n in range(40)]
            return len(Receipt.of(receipts).places(PATIENCE_S)) == 4

        wait_until(is_spread, "four shards")
        producer.increment("hinted:a", id="once", at=AT_MS)
        producer.increment("hinted:a", id="once", at=AT_MS)

    with_id = [row.partition for row in rows(log.bootstrap, "hinted") if row.event["id"]]
    assert len(with_id) == 2
    assert len(set(with_id)) == 1
