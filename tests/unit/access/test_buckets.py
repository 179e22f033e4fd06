"""Buckets: bounded, and one's haste is not another's wait."""

from pipeline.access.buckets import Buckets


def test_a_bucket_holds_two_seconds_and_fills_at_its_rate() -> None:
    buckets = Buckets()
    assert [buckets.take("a", 10, 0.0) for _ in range(21)] == [0.0] * 20 + [0.1]
    assert [buckets.take("a", 10, 0.25) for _ in range(3)][:2] == [0.0, 0.0]


def test_a_rate_below_one_still_lets_two_in() -> None:
    buckets = Buckets()
    assert [buckets.take("a", 0.1, 0.0) for _ in range(3)] == [0.0, 0.0, 10.0]


def test_keys_do_not_share() -> None:
    buckets = Buckets()
    for _ in range(100):
        buckets.take("a", 1, 0.0)
    assert buckets.take("b", 1, 0.0) == 0.0


def test_a_lowered_rate_holds_at_once() -> None:
    buckets = Buckets()
    buckets.take("a", 1000, 0.0)
    assert [buckets.take("a", 1, 0.0) for _ in range(3)] == [0.0, 0.0, 1.0]


def test_only_so_many_buckets_are_kept_and_the_oldest_gives_way() -> None:
    buckets = Buckets(buckets_max=3)
    for key in "abc":
        assert [buckets.take(key, 1, 0.0) for _ in range(3)][-1] > 0
    buckets.take("d", 1, 0.0)
    assert len(buckets) == 3
    assert buckets.take("c", 1, 0.0) > 0
    assert buckets.take("a", 1, 0.0) == 0.0
