import pytest
from msgspec.structs import replace

from pipeline.rules import TrendRules
from pipeline.trends.ranking import LEADERS, SCHEMA, InRegions, Ranking, in_regions, rank
from pipeline.trends.score import Scored
from tests.unit.trends.streams import scored

RULES = TrendRules(min_count=100, min_score=6.0, min_uniques=10, max_per_member=20, min_regions=2)
NOW, EARLIER = 600_000, 540_000


def ranked(
    given: Scored,
    before: dict[str, int] | None = None,
    rules: TrendRules = RULES,
    regions: InRegions | None = None,
) -> Ranking:
    return rank(given, rules, before or {}, window_ms=NOW, regions=regions)


def test_rows_are_by_score_and_of_equal_scores_by_name_and_at_most_k() -> None:
    given = scored(["c", "b", "a", "d"], [7.0, 9.0, 7.0, 6.5])
    found = ranked(given, rules=replace(RULES, k=3))
    assert found.rows["counter"].to_pylist() == ["b", "a", "c"]
    assert found.rows["rank"].to_pylist() == [1, 2, 3]
    assert found.trending == {"b": NOW, "a": NOW, "c": NOW}


Values = tuple[float, int, float, float, int]

GATES = {
    # Score, hour's count, extra members, times the usual events of each, regions; each given so
    # that a counter just enters, just does not, just stays, just leaves.
    "score": ((6.0, 500, 50, 1, 2), (5.99, 500, 50, 1, 2), (3.0, 500, 50, 1, 2),
              (2.99, 500, 50, 1, 2)),
    "count": ((9.0, 100, 50, 1, 2), (9.0, 99, 50, 1, 2), (9.0, 50, 50, 1, 2), (9.0, 49, 50, 1, 2)),
    "members": ((9.0, 500, 10, 1, 2), (9.0, 500, 9.9, 1, 2), (9.0, 500, 5, 1, 2),
                (9.0, 500, 4.9, 1, 2)),
    "per member": ((9.0, 500, 50, 20, 2), (9.0, 500, 50, 20.1, 2), (9.0, 500, 50, 40, 2),
                   (9.0, 500, 50, 40.1, 2)),
    "regions": ((9.0, 500, 50, 1, 2), (9.0, 500, 50, 1, 1), (9.0, 500, 50, 1, 1),
                (9.0, 500, 50, 1, 0)),
}  # fmt: skip


@pytest.mark.parametrize("gate", GATES)
def test_entering_takes_the_whole_of_every_gate_and_staying_half_of_it(gate: str) -> None:
    def trends(values: Values, before: dict[str, int]) -> bool:
        score, count, members, times, regions = values
        given = scored(["a"], [score], [count], [(members, times)])
        spread = in_regions(given.counters, _regions(regions))
        return "a" in ranked(given, before, regions=spread).trending

    enters, waits, stays, leaves = GATES[gate]
    assert trends(enters, {})
    assert not trends(waits, {})
    assert trends(stays, {"a": EARLIER})
    assert not trends(leaves, {"a": EARLIER})


def _regions(trending: int) -> dict[str, dict[str, int]]:
    return {f"r{n}": {"a": 0} if n < trending else {"z": 0} for n in range(5)}


def test_who_stays_keeps_the_window_it_entered_in() -> None:
    found = ranked(scored(["a", "b"], [4.0, 8.0]), {"a": EARLIER, "gone": EARLIER})
    assert found.trending == {"b": NOW, "a": EARLIER}
    assert found.rows["entered_ms"].to_pylist() == [NOW, EARLIER]


NAN = float("nan")


@pytest.mark.parametrize("members", [None, [(NAN, NAN)], [(50.0, NAN)]])
def test_for_what_is_not_known_of_members_nobody_is_refused(
    members: list[tuple[float, float]] | None,
) -> None:
    assert ranked(scored(["a"], [9.0], [10**6], members)).trending


def test_events_per_member_are_not_limited_when_the_limit_is_0() -> None:
    free = replace(RULES, max_per_member=0.0)
    given = scored(["a"], [9.0], [10**6], [(10.0, 1e9)])
    assert not ranked(given).trending
    assert ranked(given, rules=free).trending


@pytest.mark.parametrize(
    ("trending_in", "active", "trends"),
    [(1, 1, True), (0, 1, False), (1, 2, False), (2, 2, True), (2, 9, True), (0, 0, False)],
)
def test_worldwide_takes_enough_regions_or_all_that_are_active(
    trending_in: int, active: int, trends: bool
) -> None:
    given = scored(["b", "a"], [1.0, 9.0])
    regions = {f"r{n}": {"a": 0} if n < trending_in else {} for n in range(active)}
    found = ranked(given, regions=in_regions(given.counters, regions))
    assert (set(found.trending) == {"a"}) == trends


def test_kinds_are_rising_new_and_top_and_the_tops_come_last_by_count() -> None:
    given = scored(
        ["old", "born", "small", "great"],
        [7.0, 8.0, 0.5, -1.0],
        [500, 300, 20, 9000],
        is_new=[False, True, False, False],
    )
    found = ranked(given)
    rows = found.rows.select(["rank", "counter", "kind", "entered_ms"]).to_pylist()
    assert [tuple(row.values()) for row in rows] == [
        (1, "born", "new", NOW),
        (2, "old", "rising", NOW),
        (3, "great", "top", None),
        (4, "small", "top", None),
    ]
    assert set(found.trending) == {"born", "old"}


def test_tops_are_the_leaders_by_count_that_do_not_trend_and_fit_into_k() -> None:
    names = [f"c{row:02}" for row in range(30)]
    counts = [1000 + row for row in range(30)]
    given = scored(names, [0.0] * 29 + [9.0], counts)
    found = ranked(given).rows
    assert found["kind"].to_pylist() == ["rising"] + ["top"] * (LEADERS - 1)
    assert found["counter"].to_pylist() == ["c29"] + [f"c{row}" for row in range(28, 19, -1)]
    short = ranked(given, rules=replace(RULES, k=4)).rows
    assert short["counter"].to_pylist() == ["c29", "c28", "c27", "c26"]


def test_a_bot_is_no_top_either_and_nothing_is_no_top() -> None:
    given = scored(["bot", "none"], [50.0, 0.0], [10**6, 0], [(3.0, 1e5), (NAN, NAN)])
    assert ranked(given).rows.num_rows == 0


def test_rows_have_the_columns_promised_and_pass_the_provisional_mark_on() -> None:
    given = scored(["a", "b"], [9.0, 0.0])
    for provisional in (False, True):
        found = rank(given, RULES, {}, window_ms=NOW, provisional=provisional)
        assert found.rows.schema == SCHEMA
        assert found.provisional == provisional
        assert found.rows["provisional"].to_pylist() == [provisional] * 2
    assert ranked(scored([], [])).rows.schema == SCHEMA
