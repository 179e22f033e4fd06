"""What the commands answer about a running Tally: counts, explanations, status."""

import json
import signal
from collections.abc import Iterator, Mapping

import pytest

from pipeline.reads.spans import window_text
from tests.kit.embedded import EmbeddedLog
from tests.kit.tally import RunningTally, tally_on

RULES = """
[families.tags]
cells_max = 2
[families.cached]
read_mode = "cached"
[families.live]
read_mode = "live"
"""
SETTINGS = {
    "TALLY_PARTITIONS": "2",
    "TALLY_FLUSH_INTERVAL_S": "0.1",
    "TALLY_CHECKPOINT_INTERVAL_S": "0.5",
    "TALLY_HEARTBEAT_INTERVAL_S": "0.5",
    "TALLY_ROLLUP_INTERVAL_S": "0.5",
}
HOUR_MS = 3_600_000


@pytest.fixture(scope="module")
def tally(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningTally]:
    folder = tmp_path_factory.mktemp("answers")
    (folder / "tally.toml").write_text(RULES)
    broker = EmbeddedLog(folder / "log")
    broker.start()
    try:
        settings = {**SETTINGS, "TALLY_CONFIG": str(folder / "tally.toml")}
        with tally_on(broker, folder, settings=settings) as running:
            yield running
    finally:
        broker.kill()


def produce(tally: RunningTally, *events: Mapping[str, object]) -> None:
    tally.run("produce", "-", stdin="".join(json.dumps(event) + "\n" for event in events))


def now_ms(tally: RunningTally) -> int:
    return int(tally.rows("SELECT toUnixTimestamp64Milli(now64(3))")[0][0])


def test_explain_tells_late_duplicates_and_dead_letters_of_a_counter(tally: RunningTally) -> None:
    late_ms = now_ms(tally) - 2 * HOUR_MS
    counter = "why:\x1b[31mred"
    produce(
        tally,
        {"counter": counter, "delta": 5},
        {"counter": counter, "delta": -1},
        {"counter": counter, "delta": 3, "at": late_ms},
        {"counter": counter, "delta": 7, "id": "once"},
        {"counter": counter, "delta": 7, "id": "once"},
        {"counter": counter, "at": late_ms - 48 * HOUR_MS},
    )
    nets = "SELECT toInt64(sum(net)) FROM tally.totals WHERE family = 'why'"
    tally.wait_for(nets, [(14,)])
    tally.wait_for("SELECT count() > 0 FROM tally.dead_letters", [(1,)])
    found = tally.json("explain", counter)
    assert (found["p"], found["n"], found["late_p"], found["duplicates"]) == (15, 1, 3, 1)
    assert found["dead_letters"]["last_reason"].startswith("at: ")
    assert found["capped"] is False
    assert found["adjustments"] == {"count": 0, "by": 0}
    assert sum(part["minutes"]["cells"] for part in found["shards"]) >= 2
    for part in found["shards"]:
        assert 0 <= part["minutes"]["through"] <= part["flushed_through"]
    text = tally.run("explain", counter).stdout
    assert text.startswith("why:\\x1b[31mred is 14: 15 added, 1 taken away, seen by ")
    assert "\x1b" not in text
    hour = tally.json("explain", counter, "--window", window_text(late_ms), "--by", "1h")
    assert hour["net"] == 3
    assert tally.json("explain", counter, "--last", "60m")["net"] == 11
    assert tally.json("explain", "why:nobody")["shards"] == []


def test_a_cached_count_follows_the_rollup_and_the_file_may_ask_for_it(tally: RunningTally) -> None:
    produce(tally, {"counter": "cached:x", "delta": 4}, {"counter": "exact:x", "delta": 2})
    rolled = "SELECT toInt64(sum(p)) FROM tally.cells_1d FINAL WHERE counter = 'cached:x'"
    tally.wait_for(rolled, [(4,)])
    answer = tally.json("count", "cached:x", "--by", "1h")
    assert (answer["mode"], answer["complete"]) == ("cached", True)
    assert [row["count"] for row in answer["windows"]] == [4]
    assert 0 <= answer["staleness_ms"] < 30_000
    assert "cached: rolled up" in tally.run("count", "cached:x").stdout
    answer = tally.json("count", "exact:x")
    assert (answer["mode"], answer["total"]) == ("exact", 2)
    assert set(answer) == {
        *("counter", "total", "net", "windows", "mode", "as_of", "staleness_ms", "complete")
    }


def test_a_live_count_has_what_was_sent_before_and_the_file_may_ask_for_it(
    tally: RunningTally,
) -> None:
    produce(tally, {"counter": "live:x", "delta": 6})
    answer = tally.json("count", "live:x")
    assert (answer["mode"], answer["total"], answer["complete"]) == ("live", 6, True)
    produce(tally, {"counter": "exact:live", "delta": 3})
    assert tally.json("count", "exact:live", "--mode", "live")["total"] == 3
    [worker] = tally.workers
    worker.send(signal.SIGSTOP)
    try:
        answer = tally.json("count", "live:x", "--wait", "0.3")
    finally:
        worker.send(signal.SIGCONT)
    assert (answer["total"], answer["complete"]) == (6, False)
    assert answer["remarks"][0].startswith("not flushed on request: shard 0 is at ")


def test_a_capped_family_is_told_by_count_explain_and_status(tally: RunningTally) -> None:
    produce(tally, *[{"counter": f"tags:{name}"} for name in "abcdefghij"])
    # All of them, in either shard, and some of them without a cell of their own.
    total = "SELECT toInt64(sum(total)) FROM tally.totals WHERE startsWith(counter, 'tags:')"
    tally.wait_for(total, [(10,)])
    tally.wait_for("SELECT count() > 0 FROM tally.totals WHERE counter = 'tags:'", [(1,)])
    # Status knows families from their rollups.
    tally.wait_for("SELECT count() > 0 FROM tally.rollups WHERE family = 'tags'", [(1,)])
    for name in "abcdefghij":
        answer = tally.json("count", f"tags:{name}")
        assert answer["low"] <= 1 <= answer["high"], answer
    assert "between" in tally.run("count", "tags:a").stdout
    assert tally.json("explain", "tags:a")["sketched"] is not None
    assert "more counters than its cap allows" in tally.run("explain", "tags:a").stdout
    assert "capped" not in tally.json("count", "why:x")
    [spill] = tally.healthy_status()["capped"]
    assert spill["family"] == "tags"
    assert any(line.startswith("- family tags") for line in tally.run("status").stdout.splitlines())


def test_status_knows_freshness_and_the_age_of_rollups(tally: RunningTally) -> None:
    tally.wait_for("SELECT count() > 0 FROM tally.freshness", [(1,)])
    found = tally.healthy_status()
    assert found["freshness"]["samples"] > 0
    assert 0 < found["freshness"]["p50_ms"] <= found["freshness"]["p99_ms"] < 60_000
    assert found["freshness_p99_ms"]["greatest"] >= found["freshness_p99_ms"]["mean"]
    assert [shard["shard"] for shard in found["shards"]] == [0, 1]
    assert {shard["rules_version"] for shard in found["shards"]} != {0}
    lines = tally.run("status").stdout.splitlines()
    assert [line.split()[0] for line in lines if line.startswith(("lag", "fresh", "roll"))] == [
        *("lag", "freshness", "rollups")
    ]
    assert lines[-1].startswith("healthy: 2 shards")
