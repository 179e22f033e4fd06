"""The synthetic stream is believable, valid and repeatable."""

from collections import Counter

from pipeline.synthetic import REGIONS, SyntheticStream, day_level

AT = 1_760_000_040_000


def test_the_same_seed_gives_the_same_stream() -> None:
    assert SyntheticStream(3).events(AT, 100) == SyntheticStream(3).events(AT, 100)
    assert SyntheticStream(3).events(AT, 100) != SyntheticStream(4).events(AT, 100)


def test_a_few_counters_get_most_of_the_events() -> None:
    counts = Counter(SyntheticStream(1).events(AT, 20_000)["counter"].to_pylist())
    top = sum(count for _, count in counts.most_common(20))
    assert 0.3 < top / 20_000 < 0.9
    assert len(counts) > 500


def test_only_likes_are_taken_back_and_regions_are_known() -> None:
    rows = SyntheticStream(1).events(AT, 5_000).to_pylist()
    families = {row["counter"].partition(":")[0] for row in rows if row["delta"] == -1}
    assert families == {"likes"}
    assert {row["region"] for row in rows} == set(REGIONS)
    assert {row["at"] for row in rows} == {AT}


def test_a_hashtag_nobody_used_bursts_every_two_minutes() -> None:
    quiet, loud = 120_000 * 1_000, 120_000 * 1_000 + 60_000
    stream = SyntheticStream(1)
    shares = [
        stream.events(at, 5_000)["counter"].to_pylist().count("hashtag:#breaking0") / 5_000
        for at in (quiet, loud)
    ]
    assert shares[0] == 0
    assert 0.07 < shares[1] < 0.13


HOUR_MS = 3_600_000
MIDNIGHT = 1_760_054_400_000


def test_a_day_has_a_busy_and_a_quiet_end_around_its_mean() -> None:
    levels = [day_level(MIDNIGHT + hour * HOUR_MS) for hour in range(24)]
    assert abs(sum(levels) / 24 - 1) < 0.001
    assert max(levels) > 1.1
    assert min(levels) < 0.9
    assert day_level(MIDNIGHT) == day_level(MIDNIGHT + 24 * HOUR_MS)


def test_regions_are_busiest_in_their_own_evening() -> None:
    stream = SyntheticStream(1)

    def share(region: str, hour: int) -> float:
        events = stream.events(MIDNIGHT + hour * HOUR_MS, 20_000)
        regions: list[str] = events["region"].to_pylist()
        return regions.count(region) / len(regions)

    assert share("asia", 12) > 1.5 * share("asia", 0)
    assert share("us", 1) > 1.5 * share("us", 13)
