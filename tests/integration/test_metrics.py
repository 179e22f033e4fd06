"""What running processes expose, beside what was really done."""

import os
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import get_args

import pytest
from confluent_kafka import Producer
from prometheus_client.parser import text_string_to_metric_families

from pipeline.clock import SystemClock
from pipeline.metrics import server as metrics_server
from pipeline.metrics.definition import AnyDefinition
from pipeline.metrics.definitions.all import BY_PROCESS
from pipeline.metrics.definitions.pipeline import PIPELINE
from pipeline.metrics.definitions.web import WEB
from pipeline.metrics.definitions.worker import Duty
from pipeline.metrics.exposition import exposition
from pipeline.metrics.pipeline_collector import PipelineCollector, ask_with
from pipeline.metrics.server import REQUESTS_MAX, MetricsServer
from pipeline.metrics.values import Metrics
from schemas.addresses import ClickHouseAddress, KafkaAddress
from schemas.settings import Settings
from tests.kit.processes import PATIENCE_S, Process, free_port
from tests.kit.tally import START_TIMEOUT_S, TALLY, RunningTally, tally_up
from tests.kit.waiting import eventually

ROWS = 1_234
LATE = b'{"counter": "likes:late", "at": 1000}'
QUICK = {
    f"TALLY_{name}_INTERVAL_S": "0.5"
    for name in ("FLUSH", "CHECKPOINT", "HEARTBEAT", "ROLLUP", "TRENDS", "VERIFY")
}
LIVE_OWN = "build = (SELECT build FROM tally.live_builds WHERE cluster = '')"


@pytest.fixture(scope="module")
def tally(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningTally]:
    """A Tally that has counted ROWS events, and refused two of another sort and one late one."""
    with tally_up(tmp_path_factory.mktemp("metrics"), QUICK) as running:
        producer = Producer({"bootstrap.servers": running.kafka, "linger.ms": 50})
        values = [b'{"counter": "likes:a"}'] * ROWS + [b"nope", b"nope", LATE]
        for value in values:
            producer.produce("tally.increments", value)
        assert producer.flush(20) == 0
        letters = f"SELECT uniqExact(shard, offset) FROM tally.dead_letters WHERE {LIVE_OWN}"
        running.wait_for(letters, [(3,)])
        running.wait_for("SELECT toInt64(total) FROM tally.totals", [(ROWS,)])
        yield running


def scrape(address: str) -> dict[str, float]:
    """Samples by name and labels."""
    with urllib.request.urlopen(f"http://{address}/metrics", timeout=10) as answer:
        assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
        return samples(answer.read().decode())


def samples(text: str) -> dict[str, float]:
    return {
        sample.name + "".join(f" {key}={value}" for key, value in sorted(sample.labels.items())): (
            sample.value
        )
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def missing(definitions: tuple[AnyDefinition, ...], found: dict[str, float]) -> list[str]:
    names = {name.partition(" ")[0] for name in found}
    return [one.name for one in definitions if names.isdisjoint(one.sample_names)]


@pytest.mark.parametrize("part", ["worker", "log", "clickhouse"])
def test_a_part_exposes_all_of_its_metrics(part: str, tally: RunningTally) -> None:
    found = scrape(tally.metrics[part])
    assert missing(BY_PROCESS[part], found) == []
    assert found["process_resident_memory_bytes"] > 0


def test_a_worker_tells_what_it_counted_and_refused(tally: RunningTally) -> None:
    found = scrape(tally.metrics["worker"])
    assert found["tally_worker_rows_total"] == ROWS + 1, "the late one was decoded, too"
    assert found["tally_worker_records_total"] >= ROWS + 3, "there are heartbeats"
    assert found["tally_worker_fetched_bytes_total"] > ROWS * len('{"counter": "likes:a"}')
    assert 1 <= found["tally_worker_fetches_total"] < found["tally_worker_records_total"]
    assert found["tally_worker_dead_letters_total kind=not_json"] == 2
    assert found["tally_worker_dead_letters_total kind=too_late"] == 1
    assert found["tally_worker_owned_shards"] == 8
    assert found["tally_worker_leads"] == 1
    assert found["tally_worker_rebalances_total"] == found["tally_worker_recovery_seconds_count"]
    assert found["tally_worker_write_seconds_count write=checkpoint"] >= 1
    assert found["tally_worker_inserts_total outcome=failed"] == 0
    assert 0 <= found["tally_worker_checkpoint_age_seconds"] < 60


def test_a_worker_tells_how_fresh_counts_are_and_what_the_leader_does(
    tally: RunningTally,
) -> None:
    passes = [f"tally_leader_pass_seconds_count duty={duty}" for duty in get_args(Duty)]

    def is_told() -> bool:
        found = scrape(tally.metrics["worker"])
        return all(found[name] for name in ["tally_worker_freshness_seconds_count", *passes])

    eventually(is_told, "a heartbeat and a pass of each duty")


def test_the_log_tells_what_it_took_and_gave(tally: RunningTally) -> None:
    # In this order: what the worker has, the log gave before it is asked.
    counted = scrape(tally.metrics["worker"])["tally_worker_records_total"]
    found = scrape(tally.metrics["log"])
    assert found["tally_log_produced_records_total"] >= ROWS + 3
    assert found["tally_log_fetched_records_total"] >= counted
    assert found["tally_log_produced_bytes_total"] > ROWS * len('{"counter": "likes:a"}')
    assert found["tally_log_requests_total api=produce"] >= 1
    assert found["tally_log_requests_total api=fetch"] >= 1
    assert found["tally_log_partitions"] >= 8
    assert found["tally_log_connections"] >= 1
    assert found["tally_log_sync_seconds_count"] >= 1


def test_the_door_tells_queries_by_kind_and_outcome(tally: RunningTally) -> None:
    before = scrape(tally.metrics["clickhouse"])
    assert tally.rows("SELECT 1") == [(1,)]
    with pytest.raises(urllib.error.HTTPError):
        urllib.request.urlopen(f"{tally.clickhouse}/?query=SELECT%20nothing", timeout=10)
    after = scrape(tally.metrics["clickhouse"])
    read = "tally_clickhouse_queries_total kind=read outcome="
    assert after[f"{read}answered"] >= before[f"{read}answered"] + 1
    assert after[f"{read}failed"] == before[f"{read}failed"] + 1
    assert after["tally_clickhouse_queries_total kind=insert outcome=answered"] >= 1
    assert after["tally_clickhouse_sent_bytes_total"] > before["tally_clickhouse_sent_bytes_total"]


@pytest.mark.parametrize("part", ["worker", "log"])
def test_a_part_that_lives_says_so(part: str, tally: RunningTally) -> None:
    with urllib.request.urlopen(f"http://{tally.metrics[part]}/health", timeout=10) as answer:
        assert answer.read() == b"ok\n"
    with pytest.raises(urllib.error.HTTPError, match="404"):
        urllib.request.urlopen(f"http://{tally.metrics[part]}/", timeout=10)


def test_whoever_serves_the_pipeline_exposes_what_status_knows(tally: RunningTally) -> None:
    settings = Settings(
        kafka=KafkaAddress(tally.kafka),
        clickhouse=ClickHouseAddress(tally.clickhouse),
        config=None,
    )
    metrics = Metrics(WEB)
    clock = SystemClock()
    metrics.collect_also(PipelineCollector(ask_with(settings, clock), clock, interval_s=0.2))
    found: dict[str, float] = {}

    def is_told() -> bool:
        found.update(samples(exposition(metrics).body.decode()))
        # No minute is scored for trends before one has passed.
        return missing(PIPELINE, found) in ([], ["tally_pipeline_trends_behind_seconds"])

    eventually(is_told, "all figures of the pipeline")
    assert missing(WEB, found) == ["tally_web_requests_total", "tally_web_request_seconds"]
    assert found["tally_pipeline_up"] == 1
    assert found["tally_pipeline_build"] == 1
    assert found["tally_pipeline_differences"] == 0
    assert found["tally_pipeline_dead_letters kind=not_json"] == 2
    assert found["tally_pipeline_dead_letters kind=too_late"] == 1
    assert found["tally_pipeline_dead_letters_last_hour"] == 3
    assert found["tally_pipeline_shard_checkpoint_age_seconds shard=0"] < 60


def test_a_taken_address_is_refused_in_one_line(tally: RunningTally) -> None:
    taken = {**os.environ, **tally.env, "TALLY_METRICS": tally.metrics["worker"]}
    done = subprocess.run(
        [*TALLY, "worker"], env=taken, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert f"TALLY_METRICS: cannot listen on {tally.metrics['worker']}" in done.stderr


BEGINS_ANEW = """
import os, sys, time, urllib.request
from pipeline.metrics.definitions.worker import REBALANCES, WORKER
from pipeline.metrics.server import MetricsServer
from pipeline.metrics.values import Metrics

metrics = Metrics(WORKER)
metrics.add(REBALANCES(), int(sys.argv[2]))
MetricsServer(sys.argv[1], metrics)
print("serves", sys.argv[2], flush=True)
if sys.argv[2] == "1":
    urllib.request.urlopen(f"http://{sys.argv[1]}/metrics", timeout=10).read()
    os.execv(sys.executable, [sys.executable, "-c", os.environ["PROGRAM"], sys.argv[1], "2"])
time.sleep(600)
"""


@pytest.mark.timeout(300)
def test_a_process_that_begins_anew_keeps_its_address(tmp_path: Path) -> None:
    address = f"127.0.0.1:{free_port()}"
    command = [sys.executable, "-c", BEGINS_ANEW, address, "1"]
    with Process(command, output_path=tmp_path / "out", env={"PROGRAM": BEGINS_ANEW}) as process:
        process.wait_for_line("^serves 2$", timeout_s=START_TIMEOUT_S)
        assert scrape(address)["tally_worker_rebalances_total"] == 2


def test_only_so_many_ask_for_metrics_at_the_same_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who says nothing is let go after a while; nobody waits for that who comes later."""
    monkeypatch.setattr(metrics_server._Handler, "timeout", 2 * PATIENCE_S)
    port = free_port()
    address = f"127.0.0.1:{port}"
    with closing(MetricsServer(address, Metrics(WEB))), ExitStack() as held:
        wires = [
            held.enter_context(socket.create_connection(("127.0.0.1", port), PATIENCE_S))
            for _ in range(REQUESTS_MAX)
        ]
        with socket.create_connection(("127.0.0.1", port), PATIENCE_S) as further:
            assert further.recv(1) == b""
        for wire in wires:
            wire.sendall(b"GET /health HTTP/1.0\r\n\r\n")
            assert wire.recv(100).startswith(b"HTTP/1.0 200 ")
        eventually(lambda: is_scraped(address), "there is room again")


def is_scraped(address: str) -> bool:
    try:
        return isinstance(scrape(address), dict)
    except OSError:
        return False
