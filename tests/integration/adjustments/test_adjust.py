"""Adjustments of a running Tally: what they change, what they do not, and that each holds once."""

import json

from pipeline.reads.spans import window_text
from tests.integration.adjustments.adjusting import DAY_MS, HOUR_MS, MINUTE_MS, SIZES_MS, Adjusting


def test_a_total_is_adjusted_and_everything_that_tells_it_agrees(adjusting: Adjusting) -> None:
    adjusting.count({"delta": 120}, {"delta": 110, "counter": adjusting.counter("b")})
    counter = adjusting.counter()
    [made] = adjusting.adjust("--by", "-17", "--who", "ann")["adjustments"]
    assert (made["before"], made["after"], made["who"], made["grain"]) == (120, 103, "ann", None)
    assert adjusting.total() == 103
    answer = adjusting.tally.json("count", counter, "--by", "1d")
    assert (answer["total"], [row["count"] for row in answer["windows"]]) == (103, [120])
    assert answer["remarks"] == ["adjustments of -17 are in the total, but in no single day"]
    assert adjusting.tally.json("count", counter, "--mode", "cached")["total"] >= 103 - 120
    [entry] = adjusting.tally.json("history", counter)["adjustments"]
    told = [entry[name] for name in ("who", "why", "by", "before", "after", "id")]
    assert told == ["ann", "a test", -17, 120, 103, made["id"]]
    explained = adjusting.tally.json("explain", counter)
    assert (explained["p"], explained["net"]) == (120, 103)
    assert explained["adjustments"] == {"count": 1, "by": -17}
    line = f"1 adjustment, -17 together: see `tally history {counter}`"
    assert line in adjusting.tally.run("explain", counter).stdout


def test_a_window_is_adjusted_with_those_that_contain_it_and_no_finer_one(
    adjusting: Adjusting,
) -> None:
    at_ms = adjusting.now_ms() - 2 * HOUR_MS
    names = {grain: adjusting.counter(grain) for grain in SIZES_MS}
    adjusting.count(*({"counter": name, "delta": 50, "at": at_ms} for name in names.values()))
    starts_ms = {grain: at_ms - at_ms % size_ms for grain, size_ms in SIZES_MS.items()}
    adjusting.run_file(
        [
            {"counter": name, "by": 8, "grain": grain, "window": window_text(starts_ms[grain])}
            for grain, name in names.items()
        ],
        "--wait",
    )
    for grain, size_ms in SIZES_MS.items():
        assert adjusting.total(grain) == 58
        for other, other_ms in SIZES_MS.items():
            expected = {starts_ms[other]: 58 if other_ms >= size_ms else 50}
            assert adjusting.windows(other, grain) == expected
    hour, next_hour = (window_text(starts_ms["1h"] + later_ms) for later_ms in (0, HOUR_MS))
    for grain, expected_count in {"1m": 58, "1h": 58, "1d": 50}.items():
        span = ("--since", hour, "--until", next_hour)
        assert adjusting.tally.json("count", names[grain], *span)["total"] == expected_count
    [entry] = adjusting.tally.json("history", names["1d"])["adjustments"]
    assert (entry["before"], entry["after"], entry["grain"]) == (50, 58, "1d")
    assert entry["window"] == window_text(starts_ms["1d"])


def test_rankings_have_adjustments_of_windows_that_are_in_their_time(adjusting: Adjusting) -> None:
    at_ms = adjusting.now_ms() - 2 * HOUR_MS
    names = [adjusting.counter(name) for name in "ab"]
    adjusting.count(*({"counter": name, "delta": 50, "at": at_ms} for name in names))
    hour, day = (window_text(at_ms - at_ms % size_ms) for size_ms in (HOUR_MS, DAY_MS))
    adjusting.run_file(
        [
            {"counter": names[0], "by": -1, "grain": "1h", "window": hour},
            {"counter": names[1], "by": -2, "grain": "1d", "window": day},
            {"counter": names[1], "by": 1000},
        ],
        "--wait",
    )
    for grain, moment, counts in (("1h", hour, (49, 50)), ("1d", day, (49, 48))):
        ranked = ("--window", grain, "--at", moment)
        top = adjusting.tally.json("top", adjusting.family, *ranked)["top"]
        assert {row["counter"]: row["count"] for row in top} == dict(
            zip(names, counts, strict=True)
        )
        place = adjusting.tally.json("rank", names[0], *ranked)
        assert (place["count"], place["rank"]) == (counts[0], 2 if counts[0] < counts[1] else 1)


def test_a_region_is_adjusted_alone(adjusting: Adjusting) -> None:
    at_ms = adjusting.now_ms()
    adjusting.count(*({"delta": 10, "region": region, "at": at_ms} for region in ("eu", "us")))
    minute = window_text(at_ms - at_ms % MINUTE_MS)
    arguments = ("--by", "-4", "--region", "eu", "--grain", "1m", "--window", minute)
    [made] = adjusting.adjust(*arguments)["adjustments"]
    assert (made["before"], made["after"]) == (10, 6)
    by_region = adjusting.tally.rows(
        "SELECT toString(region), toInt64(count) FROM tally.counts_by_region_1m "
        f"WHERE counter = '{adjusting.counter()}' ORDER BY region"
    )
    assert by_region == [("eu", 6), ("us", 10)]
    told = adjusting.tally.json("count", adjusting.counter(), "--region", "eu")
    assert (told["total"], adjusting.total()) == (6, 16)
    leaders = adjusting.tally.rows(
        "SELECT region, toInt64(count) FROM tally.top_last_hour "
        f"WHERE family = '{adjusting.family}' ORDER BY region"
    )
    assert leaders == [("*", 16), ("eu", 6), ("us", 10)]


def test_the_same_id_counts_once_and_with_other_contents_it_is_refused(
    adjusting: Adjusting,
) -> None:
    again = ("--by", "5", "--id", "case-1")
    assert adjusting.adjust(*again)["written"] == 1
    told = adjusting.adjust(*again)
    assert (told["written"], told["stored_before"]) == (0, 1)
    done = adjusting.tally.run(
        "adjust", adjusting.counter(), "--by", "6", "--id", "case-1", "--why", "x", code=1
    )
    assert "is stored with other contents; give another id" in done.stderr
    assert adjusting.total() == 5


def test_of_equal_ids_in_the_log_the_first_one_holds(adjusting: Adjusting) -> None:
    for by in (3, 40, 3):
        made = {"counter": adjusting.counter(), "by": by, "id": "x", "who": "w", "why": "y"}
        adjusting.send({**made, "at": adjusting.now_ms()})
    adjusting.adjust("--by", "100")
    adjusting.wait_for_total(103)
    assert len(adjusting.tally.json("history", adjusting.counter())["adjustments"]) == 2


def test_a_reset_takes_away_what_is_there_and_counting_goes_on(adjusting: Adjusting) -> None:
    at_ms = adjusting.now_ms()  # of all: midnight may come between them
    adjusting.count({"delta": 30, "at": at_ms})
    adjusting.adjust("--by", "12")
    counter = adjusting.counter()
    done = adjusting.tally.run("reset", counter, "--why", "new contest", "--wait")
    assert f"{counter}: 42 -> 0 (-42), adjustment " in done.stdout
    assert adjusting.total() == 0
    adjusting.count({"delta": 2, "at": at_ms})
    assert adjusting.tally.json("count", counter)["total"] == 2
    assert list(adjusting.windows("1d").values()) == [32]
    adjusting.tally.run("reset", counter, "--why", "again", "--wait", "--json")
    done = adjusting.tally.run("reset", counter, "--why", "once more")
    assert done.stdout == f"{counter} is 0: there is nothing to reset\n"


def test_a_file_is_checked_as_a_whole_and_counts_once(adjusting: Adjusting) -> None:
    lines: list[dict[str, object]] = [
        {"counter": adjusting.counter("a"), "by": -2},
        {"counter": adjusting.counter("b"), "by": 7, "who": "import"},
        {"counter": adjusting.counter("a"), "by": 10},
    ]
    bad = adjusting.run_file([*lines, {"counter": "x", "by": 1}, {"by": 0}], code=1)
    assert "line 4: counter: has no family" in bad.stderr
    assert "line 5: counter: missing; by: 0 changes nothing" in bad.stderr
    assert "2 mistakes, nothing was written" in bad.stderr
    dry = adjusting.run_file(lines, "--dry-run")
    assert f"{adjusting.counter('a')}: -2 -> 8 (+10)" in dry.stdout
    assert adjusting.tally.json("history", adjusting.family, "--family")["adjustments"] == []
    assert "3 written" in adjusting.run_file(lines, "--wait").stdout
    assert (adjusting.total("a"), adjusting.total("b")) == (8, 7)
    again = adjusting.run_file(lines, "--wait")
    assert "0 written, 3 were stored before and count once" in again.stdout
    entries = adjusting.tally.json("history", adjusting.family, "--family")["adjustments"]
    assert [entry["by"] for entry in entries if entry["counter"] == adjusting.counter("a")] == [
        10,
        -2,
    ]


def test_bad_records_are_dead_letters_and_no_retry_makes_increments_of_them(
    adjusting: Adjusting,
) -> None:
    good = {"counter": adjusting.counter(), "by": 1, "id": "x", "who": "w", "why": "y"}
    adjusting.send({**good, "at": adjusting.now_ms(), "by": 0})
    ahead_ms = (adjusting.now_ms() // DAY_MS + 2) * DAY_MS
    adjusting.send({**good, "at": adjusting.now_ms(), "grain": "1d", "window": ahead_ms})
    adjusting.send(b"\xff")
    query = (
        "SELECT DISTINCT reason FROM tally.dead_letters WHERE startsWith(reason, 'adjustment: ') "
        "ORDER BY reason"
    )
    expected = [
        ("adjustment: by: 0 changes nothing",),
        ("adjustment: not JSON",),
        ("adjustment: window: more than 5 minutes ahead of the log's time",),
    ]
    adjusting.tally.wait_for(query, expected)
    done = adjusting.tally.run("dead-letters", "--retry", code=1)
    assert "run tally adjust again" in done.stdout + done.stderr
    adjusting.adjust("--by", "4")
    assert adjusting.total() == 4


def test_a_sketched_counter_is_adjusted_exactly_beside_its_estimate(running: Adjusting) -> None:
    sketchy = Adjusting(running.tally, running.folder, running.broker, "sketchy")
    sketchy.count({"delta": 40})
    [made] = sketchy.adjust("--by", "-15")["adjustments"]
    assert (made["before"], made["after"]) == (40, 25)
    found = sketchy.tally.json("count", sketchy.counter())
    assert (found["total"], found["low"], found["high"]) == (25, 25, 25)
    sketchy.tally.run("reset", sketchy.counter(), "--why", "x", "--wait")
    assert sketchy.tally.json("count", sketchy.counter())["total"] == 0


def test_a_family_that_was_only_imported_can_be_ranked(adjusting: Adjusting) -> None:
    days = [adjusting.now_ms() // DAY_MS * DAY_MS - age * DAY_MS for age in (40, 39)]
    csv = "counter,by,grain,window,who\n" + "".join(
        f"{adjusting.counter(name)},{by},1d,{window_text(day_ms)},import\n"
        for name, by in (("a", 5), ("b", 9))
        for day_ms in days
    )
    done = adjusting.tally.run("adjust", "--file", "-", "--why", "old", "--wait", stdin=csv)
    assert "4 written" in done.stdout
    assert adjusting.windows("1d", "b") == dict.fromkeys(days, 9)
    assert (adjusting.windows("1h", "b"), adjusting.total("b")) == ({}, 18)
    top = adjusting.tally.json("top", adjusting.family, "--last", "60d")["top"]
    assert [(row["counter"], row["count"]) for row in top] == [
        (adjusting.counter("b"), 18),
        (adjusting.counter("a"), 10),
    ]


def test_wrong_usage_and_bad_wishes_are_told(adjusting: Adjusting) -> None:
    run = adjusting.tally.run
    counter = adjusting.counter()
    assert "say --why" in run("adjust", counter, "--by", "1", code=2).stderr
    assert "give COUNTER and --by N" in run("adjust", "--why", "x", code=2).stderr
    assert (
        "go together"
        in run("adjust", counter, "--by", "1", "--why", "x", "--grain", "1d", code=2).stderr
    )
    assert "0 changes nothing" in run("adjust", counter, "--by", "0", "--why", "x", code=1).stderr
    arguments = ("--by", "1", "--why", "x", "--region", "eu")
    assert "keep no regions" in run("adjust", "nowhere:a", *arguments, code=1).stderr
    printed = json.loads(run("adjust", "--file", "-", "--json", stdin='{"by": 1}', code=1).stdout)
    assert printed["mistakes"][0]["line"] == 1
