"""`tally produce` of a file: cut short by Ctrl-C, kill -9 or a lost Kafka, and gone on with."""

import json
import random
import re
import signal
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition

from pipeline import topics
from schemas.addresses import KafkaAddress
from tests.kit.brokers import Broker
from tests.kit.embedded import EmbeddedLog
from tests.kit.processes import Process, wait_until
from tests.kit.tally import TALLY, RunningTally

LINES = 40_000
PADDING = "x" * 450
"""Makes a file of many chunks of few lines, so that there is much to interrupt and little to count.
"""
SIZES = (LINES, 4 * LINES, 16 * LINES)
"""Of files that are sent until one is caught half-way: who sends may be quicker than who looks."""

KILLS = 3
PATIENCE_S = 60
TOPIC = "tally.increments"


def write_events(path: Path, family: str, count: int, seed: int) -> Counter[str]:
    """A file of events, some of them late, with ids of their own, or no events; and the truth."""
    dice, truth = random.Random(seed), Counter[str]()
    with path.open("w") as file:
        for number in range(count):
            counter = f"{family}:{min(int(dice.paretovariate(1)), 40)}"
            event: dict[str, Any] = {"counter": counter, "delta": dice.choice([1, 1, 2, -1])}
            event["ignored"] = {"deep": [number, PADDING]}
            if number % 5 == 0:
                event["id"] = f"own-{number}"
            if number % 7 == 0:
                event["member"] = f"m{number % 100}"
            truth[counter] += event["delta"]
            file.write(json.dumps(event) + "\n")
    return truth


def expect(tally: RunningTally, family: str, truth: Counter[str], receipt: str) -> None:
    tally.run("count", f"{family}:1", "--after", receipt, "--wait", str(PATIENCE_S))
    query = "SELECT counter, toInt64(net) FROM tally.totals WHERE startsWith(counter, '{}:')"
    assert dict(tally.rows(query.format(family))) == +truth | -truth


def start(tally: RunningTally, file: Path, output: Path, *options: str) -> Process:
    command = [*TALLY, "produce", str(file), *options]
    return Process(command, output_path=output, env={**tally.env, "NO_COLOR": "1"})


def progress_of(file: Path) -> dict[str, Any]:
    path = file.with_name(file.name + ".tally-progress")
    document: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    return document


@contextmanager
def log_end(kafka: str) -> Iterator[Callable[[], int]]:
    """Asks how many records the log has."""
    consumer = Consumer({"bootstrap.servers": kafka, "group.id": "-"})
    partitions = consumer.list_topics(TOPIC, timeout=PATIENCE_S).topics[TOPIC].partitions
    places = [TopicPartition(TOPIC, number) for number in partitions]

    def records() -> int:
        ends = [consumer.get_watermark_offsets(place, timeout=PATIENCE_S) for place in places]
        return sum(end for _, end in ends)

    try:
        yield records
    finally:
        consumer.close()


def wait_until_sending(process: Process, file: Path, records: Callable[[], int]) -> None:
    """Until more is in the log than there was when the run began, or the run is over."""
    wait_until(lambda: progress_of(file) or not process.running, "it begins", timeout_s=PATIENCE_S)
    before = records()
    wait_until(
        lambda: records() > before + 1 or not process.running,
        "something is sent",
        timeout_s=PATIENCE_S,
        poll_s=0.002,
    )


def hold_while_sending(process: Process, file: Path, records: Callable[[], int]) -> None:
    """The same, and then it does nothing until SIGCONT: what is done to it comes half-way."""
    wait_until_sending(process, file, records)
    process.send(signal.SIGSTOP)


@pytest.mark.parametrize("way", ["lines", "frames"])
def test_killed_again_and_again_with_once_it_counts_each_line_once(
    tally: RunningTally, tmp_path: Path, way: str
) -> None:
    family, file = f"killed-{way}", tmp_path / "events.ndjson"
    truth = write_events(file, family, LINES, seed=1)
    options = ["--once", "--json", *(["--frames"] if way == "frames" else [])]
    kills, resume = 0, list[str]()
    with log_end(tally.kafka) as records:
        before = records()
        while True:
            with start(tally, file, tmp_path / f"out{kills}", *options, *resume) as process:
                if kills < KILLS:
                    wait_until_sending(process, file, records)
                if kills == KILLS or not process.running:
                    assert process.wait(timeout_s=PATIENCE_S) == 0, process.output()
                    done = json.loads(process.output())
                    break
                process.kill()
            kills += 1
            resume = ["--resume"]
        assert kills, "it was never killed"
        assert way == "frames" or records() > before + LINES + 100, "nothing was sent twice"
    assert (done["sent"], done["offset"]) == (LINES, file.stat().st_size)
    assert not progress_of(file)
    expect(tally, family, truth, done["receipt"])


@pytest.mark.parametrize("way", ["lines", "frames"])
def test_interrupted_by_ctrl_c_it_sends_nothing_twice(
    tally: RunningTally, tmp_path: Path, way: str
) -> None:
    file = tmp_path / "events.ndjson"
    options = ["--frames"] if way == "frames" else []
    for lines in SIZES:
        family = f"interrupted-{way}-{lines}"
        truth = write_events(file, family, lines, seed=2)
        with (
            log_end(tally.kafka) as records,
            start(tally, file, tmp_path / f"first-{lines}", *options) as process,
        ):
            hold_while_sending(process, file, records)
            process.send(signal.SIGINT)
            process.send(signal.SIGCONT)
            code = process.wait(timeout_s=PATIENCE_S)
            said = process.output()
        if code:
            break
    assert code == 130, said
    kept = progress_of(file)
    assert said.count("\n") == 1
    assert f"interrupted after line {kept['lines']}, byte {kept['offset']}" in said
    assert f"`tally produce {file} --resume` goes on" in said
    assert 0 < kept["sent"] == kept["lines"] < lines

    refused = tally.run("produce", str(file), code=1)
    assert "go on with --resume" in refused.stderr
    done = tally.json("produce", str(file), "--resume", *options)
    assert (done["sent"], done["refused"], done["unknown"]) == (lines, 0, 0)
    expect(tally, family, truth, done["receipt"])


def test_bad_lines_have_their_numbers_also_after_going_on(
    tally: RunningTally, tmp_path: Path
) -> None:
    file = tmp_path / "events.ndjson"
    good = '{"counter": "numbers:x"}\n'
    file.write_text(good * 3 + "oops\n" + good + "\n" + '{"counter":"none"}\n' + good)
    done = tally.json("produce", str(file), code=1)
    assert (done["sent"], done["refused"]) == (5, 2)
    assert [one["line"] for one in done["reasons"]] == [4, 7]
    later = tally.json("produce", str(file), "--from-byte", str(3 * len(good)), code=1)
    assert (later["sent"], [one["line"] for one in later["reasons"]]) == (2, [4, 7])
    assert not progress_of(file)
    expect(tally, "numbers", Counter({"numbers:x": 7}), later["receipt"])


def test_lines_arrive_as_they_are(log: Broker, tmp_path: Path) -> None:
    lines = [b'{"counter": "asis:x",   "unknown": [1, {"a": null}]}', b'{"counter":"asis:y"}']
    file = tmp_path / "events.ndjson"
    file.write_bytes(b"\n".join(lines))
    nowhere = RunningTally(log.bootstrap, "http://127.0.0.1:1")
    receipt = nowhere.json("produce", str(file))["receipt"]
    assert sorted(values_at(log.bootstrap, receipt)) == sorted(lines)


def values_at(kafka: str, receipt: str) -> list[bytes]:
    """The records at the places of a receipt."""
    settings: dict[str, str | int | float | bool] = {
        "bootstrap.servers": kafka,
        "group.id": "-",
        "enable.auto.commit": False,
    }
    consumer, found = Consumer(settings), list[bytes]()
    try:
        for place in receipt.split(","):
            partition, offset = map(int, place.split(":"))
            consumer.assign([TopicPartition(TOPIC, partition, offset)])
            message = consumer.poll(PATIENCE_S)
            assert message is not None
            value = message.value()
            assert isinstance(value, bytes)
            found.append(value)
    finally:
        consumer.close()
    return found


@pytest.mark.parametrize("once", [False, True], ids=["without ids", "once"])
def test_a_lost_kafka_ends_it_with_a_line_that_says_how_to_go_on(
    tmp_path: Path, once: bool
) -> None:
    broker = EmbeddedLog(tmp_path / "log")
    file = tmp_path / "events.ndjson"
    options = ["--timeout=4", *(["--once"] if once else [])]
    try:
        for lines in SIZES:
            broker.start()
            topics.ensure_topics(KafkaAddress(broker.bootstrap), 1, 4)
            write_events(file, "lost", lines, seed=3)
            lost = RunningTally(broker.bootstrap, "http://127.0.0.1:1")
            with (
                log_end(broker.bootstrap) as records,
                start(lost, file, tmp_path / f"out-{lines}", *options) as process,
            ):
                hold_while_sending(process, file, records)
                broker.kill()
                process.send(signal.SIGCONT)
                code = process.wait(timeout_s=PATIENCE_S)
                said = process.output()
            if code:
                break
    finally:
        broker.kill()
    assert code == 1, said
    kept = progress_of(file)
    assert said.count("\n") == 1
    found = re.search(r"([\d,]+) lines between bytes (\d+) and (\d+)", said)
    assert found, said
    unknown, first, end = (int(number.replace(",", "")) for number in found.groups())
    assert unknown > 0
    assert 0 <= first < end <= file.stat().st_size
    if once:
        assert f"`tally produce {file} --resume` sends them again, and each counts once" in said
        assert (kept["offset"], kept["unknown"]) == (first, 0)
    else:
        assert f"`tally produce {file} --resume` goes on after them, without them" in said
        assert kept["offset"] >= end
        assert kept["unknown"] == unknown
        assert kept["sent"] + unknown == kept["lines"]
