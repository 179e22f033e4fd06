"""What status makes of the log's ends and the flushed positions."""

from pipeline.reads import FlushedShard
from pipeline.status import CHECKPOINT_AGE_MS_MAX, judge

NOW = 1_760_000_000_000


def flushed(
    shard: int, through: int, age_ms: int = 1_000, *, checkpointed: bool = True
) -> FlushedShard:
    at_ms = NOW - age_ms
    return FlushedShard(shard, through, at_ms, through, at_ms if checkpointed else 0, NOW)


def test_a_shard_that_is_flushed_to_the_end_has_no_lag_and_is_healthy() -> None:
    status = judge({0: 10, 1: 0}, {0: flushed(0, 9), 1: flushed(1, -1)}, {}, NOW)
    assert status.healthy
    assert [shard.lag for shard in status.shards] == [0, 0]


def test_lag_is_what_the_log_has_beyond_the_flushed_offset() -> None:
    status = judge({0: 10}, {0: flushed(0, 4)}, {}, NOW)
    assert status.shards[0].lag == 5


def test_a_shard_no_worker_ever_counted_is_named() -> None:
    status = judge({0: 3, 1: 3}, {0: flushed(0, 2)}, {}, NOW)
    assert status.problems == ["no worker has checkpointed shard 1 yet; is one running?"]
    assert status.shards[1].lag == 3


def test_a_shard_whose_checkpoint_is_old_is_unhealthy_even_if_it_has_no_lag() -> None:
    old = flushed(0, 9, CHECKPOINT_AGE_MS_MAX + 1)
    status = judge({0: 10}, {0: old}, {}, NOW)
    assert not status.healthy
    assert "shard 0 not checkpointed for up to 30 s" in status.problems[0]
    assert judge({0: 10}, {0: flushed(0, 9, CHECKPOINT_AGE_MS_MAX)}, {}, NOW).healthy


def test_a_topic_that_does_not_exist_is_a_problem_and_not_health() -> None:
    assert judge({}, {}, {}, NOW).problems == [
        "topic tally.increments does not exist; start a worker to make it"
    ]


def test_a_clock_that_is_behind_gives_no_negative_age() -> None:
    status = judge({0: 1}, {0: flushed(0, 0, -5_000)}, {}, NOW)
    assert status.shards[0].checkpoint_age_ms == 0


def test_a_refusal_is_told_until_the_shard_is_checkpointed_again() -> None:
    position = {0: flushed(0, 9, 1_000)}
    later, earlier = {0: (NOW - 500, "do this")}, {0: (NOW - 5_000, "do this")}
    assert judge({0: 10}, position, later, NOW).problems == ["shard 0 is not counted on: do this"]
    assert judge({0: 10}, position, earlier, NOW).healthy
