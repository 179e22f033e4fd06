"""The whole path: produced by any client, counted by a worker, read from ClickHouse."""

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from aiokafka import AIOKafkaProducer
from confluent_kafka import Producer

from tests.kit.kafka import RealKafka, require_kafka
from tests.kit.processes import wait_until
from tests.kit.tally import RunningTally, start_worker, tally_on, tally_up

TOPIC = "tally.increments"
MINUTE_MS = 60_000


@pytest.fixture(scope="module", params=["embedded", pytest.param("kafka", marks=pytest.mark.kafka)])
def tally(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RunningTally]:
    folder = tmp_path_factory.mktemp(request.param)
    if request.param == "embedded":
        with tally_up(folder) as running:
            yield running
        return
    require_kafka()
    broker = RealKafka(folder / "kafka")
    broker.start()
    try:
        with tally_on(broker, folder) as running:
            yield running
    finally:
        broker.kill()


@pytest.fixture(scope="module")
def start_ms(tally: RunningTally) -> int:
    """The beginning of the current minute by the servers' clock."""
    [(now_ms,)] = tally.rows("SELECT toUnixTimestamp64Milli(now64(3))")
    return int(now_ms) // MINUTE_MS * MINUTE_MS


def events_of(family: str, start_ms: int) -> list[dict[str, object]]:
    """A small stream with skew, removals, regions, members and events some minutes old."""
    return [
        {
            "counter": f"{family}:key-{n % 7 * (n % 3)}",
            "delta": -1 if n % 11 == 0 else 1 + n % 4,
            "at": start_ms - (n % 5) * MINUTE_MS,
            "region": ("eu", "us", "")[n % 3],
            "member": f"m-{n % 13}",
        }
        for n in range(500)
    ]


def truth(events: list[dict[str, object]]) -> list[tuple[str, int, int]]:
    """Counter, window in seconds, count: added up here, by nothing of Tally."""
    sums: Counter[tuple[str, int]] = Counter()
    for event in events:
        at, delta = event["at"], event["delta"]
        assert isinstance(at, int)
        assert isinstance(delta, int)
        sums[str(event["counter"]), at // MINUTE_MS * 60] += delta
    return sorted((counter, window, count) for (counter, window), count in sums.items())


def expect(tally: RunningTally, family: str, events: list[dict[str, object]]) -> None:
    tally.wait_for(
        "SELECT counter, toUnixTimestamp(window), toInt64(count) FROM tally.counts_1m "
        f"WHERE startsWith(counter, '{family}:') ORDER BY counter, window",
        truth(events),
    )


def lines(events: list[dict[str, object]]) -> str:
    return "".join(json.dumps(event) + "\n" for event in events)


@pytest.mark.parametrize("frames", [False, True], ids=["json", "frames"])
def test_events_of_tally_produce_are_counted(
    tally: RunningTally, start_ms: int, frames: bool
) -> None:
    family = "frames" if frames else "json"
    events = events_of(family, start_ms)
    options = ["--frames"] if frames else []
    done = tally.run_process("produce", *options, "--json", "-", stdin=lines(events))
    answer = json.loads(done.stdout)
    assert answer.pop("receipt")
    assert answer == {
        "sent": 500,
        "refused": 0,
        "unknown": 0,
        "reasons": [],
        "offset": len(lines(events)),
    }
    expect(tally, family, events)


def test_events_of_a_plain_confluent_kafka_producer_are_counted(
    tally: RunningTally, start_ms: int
) -> None:
    events = events_of("confluent", start_ms)
    producer = Producer({"bootstrap.servers": tally.kafka, "linger.ms": 5})
    for event in events:
        producer.produce(TOPIC, json.dumps(event).encode(), key=str(event["counter"]).encode())
    assert producer.flush(30) == 0
    expect(tally, "confluent", events)


async def test_events_of_aiokafka_are_counted(tally: RunningTally, start_ms: int) -> None:
    events = events_of("aiokafka", start_ms)
    producer = AIOKafkaProducer(bootstrap_servers=tally.kafka)
    await producer.start()
    try:
        for event in events:
            await producer.send(TOPIC, json.dumps(event).encode())
        await producer.flush()
    finally:
        await producer.stop()
    expect(tally, "aiokafka", events)


def test_an_event_without_a_time_is_counted_at_the_logs_time(tally: RunningTally) -> None:
    tally.run("produce", "-", stdin='{"counter": "now:x"}\n')
    tally.wait_for(
        "SELECT count() FROM tally.counts_1m WHERE counter = 'now:x' AND count = 1 "
        "AND window BETWEEN now() - INTERVAL 2 MINUTE AND now()",
        [(1,)],
    )


def test_a_bad_line_is_named_and_the_others_are_counted(tally: RunningTally) -> None:
    stdin = '{"counter": "mixed:x"}\nnonsense\n\n{"counter": "no-family"}\n{"counter": "mixed:x"}\n'
    done = tally.run_process("produce", "-", stdin=stdin, code=1)
    assert done.stdout == "sent 2 events\n"
    errors = done.stderr.splitlines()
    assert len(errors) == 3
    assert errors[0].startswith("tally: line:2: ")
    assert errors[1].startswith("tally: line:4: counter: ")
    assert errors[2] == "tally: 2 lines were refused and not sent"
    tally.wait_for("SELECT toInt64(total) FROM tally.totals WHERE counter = 'mixed:x'", [(2,)])


def test_a_bad_record_in_the_topic_stops_nothing(tally: RunningTally) -> None:
    producer = Producer({"bootstrap.servers": tally.kafka})
    for value in (b"\xff\x00 nonsense", b'{"counter": "poison:x"}', None, b"[]"):
        producer.produce(TOPIC, value, partition=3)
    assert producer.flush(30) == 0
    tally.wait_for("SELECT toInt64(total) FROM tally.totals WHERE counter = 'poison:x'", [(1,)])


def test_a_total_below_zero_is_shown_as_zero_beside_its_net(tally: RunningTally) -> None:
    tally.run("produce", "-", stdin='{"counter": "debt:x", "delta": -3}\n')
    query = "SELECT toInt64(total), toInt64(net) FROM tally.totals WHERE counter = 'debt:x'"
    tally.wait_for(query, [(0, -3)])
    assert tally.run_process("count", "debt:x").stdout.splitlines()[0] == "debt:x  0  (net -3)"


def test_count_answers_what_clickhouse_holds(tally: RunningTally, start_ms: int) -> None:
    events = events_of("counted", start_ms)
    tally.run("produce", "-", stdin=lines(events))
    expect(tally, "counted", events)
    counter = "counted:key-0"
    mine = [row for row in truth(events) if row[0] == counter]
    answer = tally.json("count", counter, "--by", "1m")
    assert answer["total"] == answer["net"] == sum(count for _, _, count in mine)
    assert [window["count"] for window in answer["windows"]] == [count for _, _, count in mine]
    assert answer["complete"] is True
    assert answer["mode"] == "exact"
    assert answer["staleness_ms"] < 30_000
    in_eu = [e for e in events if e["counter"] == counter and e["region"] == "eu"]
    answer = tally.json("count", counter, "--region", "eu")
    assert answer["net"] == sum(count for _, _, count in truth(in_eu))
    day = tally.json("count", counter, "--by", "1d", "--last", "60m")
    assert sum(window["count"] for window in day["windows"]) == sum(row[2] for row in mine)


def test_an_unknown_counter_counts_zero(tally: RunningTally) -> None:
    answer = tally.json("count", "nobody:asked", "--by", "1m")
    assert (answer["total"], answer["windows"]) == (0, [])


def test_status_is_healthy_and_its_lag_goes_to_zero(tally: RunningTally) -> None:
    status = tally.healthy_status()
    assert status["healthy"] is True
    assert status["problems"] == []
    assert [shard["shard"] for shard in status["shards"]] == list(range(8))

    def lag() -> int:
        return sum(int(shard["lag"]) for shard in tally.healthy_status()["shards"])

    # Heartbeats lag, too, until the flush that follows them.
    wait_until(lambda: lag() == 0, "all is flushed", timeout_s=30)


def test_a_killed_worker_is_replaced_and_nothing_is_lost_or_doubled(
    tmp_path: Path, tally: RunningTally, start_ms: int
) -> None:
    if not tally.workers:
        pytest.skip("under `tally up` the supervisor owns the worker: see test_up.py")
    before, after = events_of("killed", start_ms), events_of("killed", start_ms)
    tally.run("produce", "-", stdin=lines(before))
    expect(tally, "killed", before)  # Flushed, and most likely not checkpointed yet.
    tally.workers.pop().kill()
    tally.run("produce", "-", stdin=lines(after))
    tally.workers.append(start_worker(tally, tmp_path / "replacement.txt"))
    expect(tally, "killed", before + after)
