"""What the truth checker holds of minutes of members, and of rankings that go by the clock."""

from tests.kit.truth.expected import ALL, EVER, Adjustment, Expected
from tests.kit.truth.record import Document

NOW_MS = 1_794_000_000_000


def test_members_of_minutes_are_those_of_families_that_keep_them() -> None:
    one: Document = {"delta": 1, "at": NOW_MS, "region": "eu", "member": "m"}
    expected = Expected([{**one, "counter": "views:a"}, {**one, "counter": "likes:a"}])
    minute_s = NOW_MS // 60_000 * 60
    assert expected.members("1m") == {
        ("views:a", region, minute_s): {"m"} for region in ("eu", "*")
    }
    for grain in ("1h", "1d"):
        assert {counter for counter, _, _ in expected.members(grain)} == {"views:a", "likes:a"}


def test_rankings_of_now_are_those_of_the_newest_window_and_of_the_last_minutes() -> None:
    minute_s = NOW_MS // 60_000 * 60
    one: Document = {"delta": 1, "region": "eu"}
    expected = Expected(
        {**one, "counter": counter, "at": (minute_s + minutes * 60) * 1000}
        for counter, minutes in (("a:old", -60), ("a:now", 0), ("a:ahead", 2), ("b:old", -59))
    )
    for now_s, newest in (
        (minute_s + 59, "a:now"),
        (minute_s + 60, None),
        (minute_s + 150, "a:ahead"),
    ):
        rankings = expected.newest_rankings("1m", now_s)
        told = [ranking for (family, *_), ranking in rankings.items() if family == "a"]
        assert told == ([[(newest, 1)]] * 2 if newest else [])
        assert rankings["b", "eu", minute_s - 59 * 60] == [("b:old", 1)]
    for now_s, listed in ((minute_s - 1, 3), (minute_s, 2), (minute_s + 59, 2), (minute_s + 60, 2)):
        rankings = expected.last_rankings(3_600, now_s)
        assert len(rankings["a", "*", -1]) == listed
        assert (("b", "*", -1) in rankings) == (now_s < minute_s + 60)


def test_adjustments_are_in_their_windows_in_those_around_them_and_in_the_total() -> None:
    hour_s, day_s = NOW_MS // 3_600_000 * 3_600, NOW_MS // 86_400_000 * 86_400
    one: Document = {"counter": "a:b", "delta": 1, "region": "eu", "at": hour_s * 1000}
    adjustments = [
        Adjustment("a:b", "us", 10, None, 0),
        Adjustment("a:b", "eu", 200, "1m", hour_s + 60),
        Adjustment("a:b", "eu", 3_000, "1h", hour_s),
        Adjustment("a:c", "eu", 40_000, "1d", day_s),
    ]
    expected = Expected([one], adjustments)
    assert expected.totals() == {("a:b",): 3_211, ("a:c",): 40_000}
    by_region = expected.totals_by_region()
    assert (by_region["a:b", "us", EVER], by_region["a:b", "eu", EVER]) == (10, 3_201)
    for grain, counts in (
        ("1m", {("a:b", hour_s): 1, ("a:b", hour_s + 60): 200}),
        ("1h", {("a:b", hour_s): 3_201}),
        ("1d", {("a:b", day_s): 3_201, ("a:c", day_s): 40_000}),
    ):
        assert expected.counts(grain) == {
            (counter, region, start_s): count
            for (counter, start_s), count in counts.items()
            for region in ("eu", ALL)
        }
    assert expected.members("1d") == {}
    now_s = hour_s + 90
    assert expected.last_rankings(3_600, now_s)["a", ALL, EVER] == [("a:b", 201)]
    assert expected.newest_rankings("1m", now_s)["a", ALL, hour_s + 60] == [("a:b", 200)]
