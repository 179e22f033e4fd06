"""Every kind of answer of the web API is compared: each single lie is told of, and no truth is.

A real web process cannot be made to lie, so processes stand in for it here that answer by the truth
itself, but for one answer. `test_truth.py` has the checker find a real one true.
"""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import pytest

from tests.kit.registers import registers_of, uniques_of
from tests.kit.truth import asking, over_web
from tests.kit.truth.asking import Webs
from tests.kit.truth.checker import sample_of
from tests.kit.truth.differences import Difference
from tests.kit.truth.expected import EVER, GRAINS_S, Expected
from tests.kit.truth.ledger import Answer, Decisions
from tests.kit.truth.record import Document
from tests.kit.truth.sketched import LoggedRow, Sketched, estimates

NOW_MS = 1_794_000_000_000
HOUR_MS = 3_600_000
VIEWED = 3
"""The key of a counter whose members are kept by minutes; the other families have it, too."""

Asked = dict[str, str]
Lie = Callable[[Asked, dict[str, Any]], None]


def sent() -> list[Document]:
    """Six counters of two families in two regions, now and five hours ago; some are taken away."""
    return [
        {
            "counter": f"views:{VIEWED}" if key == 5 else f"likes:{key}",
            "delta": delta * (key + 1),
            "at": NOW_MS - ago_ms,
            "region": region,
            "member": f"m-{key}-{region}",
        }
        for key in range(6)
        for ago_ms, delta in ((0, 2), (5 * HOUR_MS, 1), (9 * HOUR_MS, -1))
        for region in ("eu", "")
    ]


def words() -> list[Document]:
    return [
        {"counter": f"words:{key}", "delta": 1 + key, "at": NOW_MS, "region": region}
        for key in range(12)
        for region in ("eu", "us")
    ]


EXPECTED = Expected(sent())
SKETCHED = Sketched(words(), [LoggedRow(one, NOW_MS) for one in words()])
DECISIONS = Decisions(
    [{"counter": "stock:a", "what": "increment", "amount": 5, "id": "one"}], [[Answer(True, 5)]]
)

ALL_COUNTERS = {*EXPECTED.counters(), *SKETCHED.counters(), "stock:a"}


class Process:
    """Answers by the truth, once `lie` has seen the answer and what was asked."""

    def __init__(self, lie: Lie) -> None:
        self.asked: list[Asked] = []
        self._lie = lie

    def answer(self, target: str) -> dict[str, Any]:
        parts = urlsplit(target)
        given = parse_qs(parts.query, keep_blank_values=True)
        names = [unquote(name) for name in parts.path.removeprefix("/api/v1/").split("/")]
        asked = {"of": names[0], "name": names[1] if len(names) > 1 else ""}
        asked["what"] = names[2] if len(names) > 2 else "key" if asked["name"] else "many"
        asked |= {name: values[0] for name, values in given.items()}
        self.asked.append(asked)
        document = {"complete": True, **self._document(asked, given.get("counter", []))}
        self._lie(asked, document)
        return document

    def _document(self, asked: Asked, counters: list[str]) -> dict[str, Any]:
        region = asked.get("region", "*")
        if asked["what"] == "key":
            counters = [one for one in ALL_COUNTERS if one.partition(":")[2] == asked["name"]]
        if asked["what"] in {"many", "key"}:
            return {"counters": [{"counter": one, **_total(one, region)} for one in counters]}
        if asked["what"] in {"live", "regions"}:
            places = [{"region": one, **_total(asked["name"], one)} for one in EXPECTED.regions()]
            return {**_total(asked["name"], region), "regions": places}
        if asked["what"] == "windows":
            return {**_total(asked["name"], region), "windows": _windows(asked, region)}
        if asked["what"] == "uniques":
            found = {
                start_s: _uniques(who)
                for (counter, where, start_s), who in {
                    **EXPECTED.members(asked["by"]),
                    **EXPECTED.members_ever(),
                }.items()
                if (counter, where) == (asked["name"], region)
            }
            ever = found.pop(EVER, {"uniques": 0, "low": 0, "high": 0})
            return {**ever, "windows": [{"window": _text(at), **one} for at, one in found.items()]}
        if asked["what"] == "top":
            return {"top": _top(asked, region)}
        return {"accepted": True, "remaining": 5}


def _uniques(members: set[str]) -> dict[str, int]:
    [(uniques, low, high)] = uniques_of(registers_of(members))
    return {"uniques": uniques, "low": low, "high": high}


def _total(counter: str, region: str) -> dict[str, Any]:
    if counter == "stock:a":
        return {"net": 5}
    if counter.startswith("words:"):
        counts = SKETCHED.truths(None)["words", region, EVER]
        value, low, high = estimates("words", counts, [counter])[counter]
        return {"net": value, "low": low, "high": high}
    return {"net": EXPECTED.totals_by_region()[counter, region, EVER]}


def _windows(asked: Asked, region: str) -> list[dict[str, Any]]:
    found = []
    if asked["name"].startswith("words:"):
        for (_, where, start_s), counts in SKETCHED.truths(asked["by"]).items():
            if where == region:
                value, low, high = estimates("words", counts, [asked["name"]])[asked["name"]]
                found.append({"window": _text(start_s), "count": value, "low": low, "high": high})
        return found
    for (counter, where, start_s), count in EXPECTED.counts(asked["by"]).items():
        if (counter, where) == (asked["name"], region):
            found.append({"window": _text(start_s), "count": count})
    return found


def _top(asked: Asked, region: str) -> list[dict[str, Any]]:
    start_s = int(datetime.fromisoformat(asked["at"]).timestamp())
    place = (asked["name"], region, start_s)
    if asked["name"] == "words":
        counts = SKETCHED.truths(asked["window"])[place]
        known = {name: one.value for name, one in estimates("words", counts, counts).items()}
        ranking = sorted(known.items(), key=lambda one: (-one[1], one[0]))
    else:
        ranking = EXPECTED.rankings(asked["window"])[place]
    return [{"counter": name, "count": count} for name, count in ranking[: int(asked["k"])]]


def _text(start_s: int) -> str:
    return datetime.fromtimestamp(start_s, UTC).isoformat()


@contextmanager
def served(process: Process) -> Iterator[str]:
    """The address at which a process answers."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do_GET(self) -> None:
            document = process.answer(self.path)
            status = document.pop("status", 200)
            body = json.dumps(document).encode()
            self.send_response(status)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            self.do_GET()

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def differences(*lies: Lie) -> tuple[list[Difference], list[Process]]:
    """What is found wrong with two processes, of which the first or both lie."""
    processes = [Process(lie) for lie in (*lies, _truth, _truth)[:2]]
    with served(processes[0]) as one, served(processes[1]) as other:
        webs = Webs([one, other], None, "")
        return list(over_web.differences(webs, EXPECTED, SKETCHED, DECISIONS)), processes


def _truth(_asked: Asked, _document: dict[str, Any]) -> None:
    """No lie."""


def test_the_truth_is_found_true_and_everything_was_asked() -> None:
    found, processes = differences()
    assert found == []
    asked = [one for process in processes for one in process.asked]
    everywhere = {
        (counter, grain, region)
        for counter in EXPECTED.counters()
        for grain in GRAINS_S
        for region in ("*", "eu", "")
    }
    for what in ("windows", "uniques"):
        assert everywhere == {
            (one["name"], one["by"], one["region"])
            for one in asked
            if one["what"] == what and one["name"] in EXPECTED.counters()
        }
    for what, names in (
        ("regions", EXPECTED.counters()),
        ("key", [*sorted(map(str, range(12))), "a"]),
    ):
        assert names == sorted(one["name"] for one in asked if one["what"] == what)
    tops = {
        (one["window"], one["name"], one["region"], one["at"], one["k"])
        for one in asked
        if one["what"] == "top"
    }
    for grain in GRAINS_S:
        for (family, region, start_s), ranking in EXPECTED.rankings(grain).items():
            at = datetime.fromtimestamp(start_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
            assert (grain, family, region, at, "10") in tops
            assert ((grain, family, region, at, "3") in tops) == (len(ranking) > 3)
    assert any(ranking == [] for ranking in EXPECTED.rankings("1m").values())
    for process in processes:
        assert {(one["what"], one.get("by") or one.get("window")) for one in process.asked} >= {
            *(("windows", grain) for grain in GRAINS_S),
            *(("top", grain) for grain in GRAINS_S),
            *(("uniques", grain) for grain in GRAINS_S),
            *((what, None) for what in ("live", "many", "key", "regions")),
        }


def test_a_sample_is_of_every_kind_and_grain_and_another_one_by_another_seed() -> None:
    asked = []
    for seed in ("1", "2"):
        process = Process(_truth)
        with served(process) as url:
            webs = Webs([url], 3, seed)
            assert list(over_web.differences(webs, EXPECTED, SKETCHED, DECISIONS)) == []
        everything = {"many", "live", "increment"}
        sampled = [one for one in process.asked if one["what"] not in everything]
        assert len(sampled) == webs.asked < webs.known
        kinds = {
            (one["what"], one["name"].startswith("words"), one.get("by") or one.get("window"))
            for one in sampled
        }
        assert len(kinds) == 3 * 5 + 2, "windows and rankings of both kinds, uniques; and the rest"
        asked.append(sampled)
    assert asked[0] != asked[1]


def test_of_a_small_run_all_is_asked_and_of_a_longer_one_more_than_of_a_short_one() -> None:
    assert sample_of(0) is sample_of(1_000) is None
    assert sample_of(1_001) == sample_of(40_000) == 10
    assert sample_of(40_001) == sample_of(10**9) == 60


def of(what: str, change: Lie, **asked: str) -> Lie:
    """A lie in the answers to such questions alone."""

    def lie(given: Asked, document: dict[str, Any]) -> None:
        if given["what"] == what and asked.items() <= given.items():
            change(given, document)

    return lie


def of_counter(counter: str, **change: int) -> Lie:
    def lie(_asked: Asked, document: dict[str, Any]) -> None:
        for one in document["counters"]:
            if one["counter"] == counter:
                one.update(change)

    return lie


def more_in_last(field: str) -> Lie:
    def lie(_asked: Asked, document: dict[str, Any]) -> None:
        document["windows"][-1][field] += 2
        if field == "uniques":
            document["windows"][-1]["high"] += 2

    return lie


def any_bounds(_asked: Asked, document: dict[str, Any]) -> None:
    document |= {"low": 0, "high": 10**9}


def less_in_first_region(_asked: Asked, document: dict[str, Any]) -> None:
    document["regions"][0]["net"] -= 1


def one_more_listed(_asked: Asked, document: dict[str, Any]) -> None:
    document["top"].append({"counter": "likes:0", "count": 2})


def one_more_window(_asked: Asked, document: dict[str, Any]) -> None:
    document["windows"].append({"window": _text(NOW_MS // 1000), **_uniques({"m"})})


def none_listed(_asked: Asked, document: dict[str, Any]) -> None:
    document["top"] = []


def net_of_7(_asked: Asked, document: dict[str, Any]) -> None:
    document["net"] = 7


OLDEST = datetime.fromtimestamp((NOW_MS - 9 * HOUR_MS) // HOUR_MS * 3600, UTC)
LIKE, EU = {"name": "likes:3"}, {"region": "eu"}
LIES: dict[str, tuple[str, Lie]] = {
    **{
        f"a total, {mode}": (
            f"web totals, {mode}",
            of("many", of_counter("likes:3", net=7), mode=mode, region=""),
        )
        for mode in ("cached", "exact")
    },
    "a live total of any counter": ("web totals, live", of("live", net_of_7, name="likes:0")),
    **{
        f"a window of {grain} in a region": (
            f"web windows of {grain}",
            of("windows", more_in_last("count"), by=grain, **LIKE, **EU),
        )
        for grain in GRAINS_S
    },
    "what windows come to": ("web windows of 1d", of("windows", net_of_7, by="1d", **LIKE)),
    **{
        f"uniques of {grain} in a region": (
            f"web uniques of {grain}",
            of("uniques", more_in_last("uniques"), by=grain, name=name, **EU),
        )
        for grain, name in (("1m", f"views:{VIEWED}"), ("1h", "likes:3"), ("1d", "likes:3"))
    },
    "minutes of members that are kept by hours": (
        "web uniques of 1m",
        of("uniques", one_more_window, by="1m", **LIKE),
    ),
    "bounds of uniques": ("web uniques of 1d", of("uniques", any_bounds, by="1d", **LIKE)),
    "what a region has": ("web regions", of("regions", less_in_first_region, **LIKE)),
    **{
        f"what a key has in {counter}": (
            "web keys",
            of("key", of_counter(counter, net=99), name=counter.partition(":")[2]),
        )
        for counter in ("likes:3", f"views:{VIEWED}", "words:3", "stock:a")
    },
    **{
        f"a ranking of {grain} in a region": (
            f"web top of {grain}",
            of("top", none_listed, window=grain, name="likes", **EU),
        )
        for grain in GRAINS_S
    },
    "a ranking that is not cut": (
        "web top of 1h",
        of("top", one_more_listed, window="1h", name="likes", k="3"),
    ),
    "a ranking of an hour long ago": (
        "web top of 1h",
        of("top", one_more_listed, window="1h", name="likes", at=f"{OLDEST:%Y-%m-%dT%H:%M:%S}Z"),
    ),
    "an estimate in a region": (
        "web estimates",
        of("many", of_counter("words:3", net=99, high=99), region="us"),
    ),
    **{
        f"an estimate of {grain} in a region": (
            f"web estimates of {grain}",
            of("windows", more_in_last("count"), by=grain, name="words:0", region="us"),
        )
        for grain in GRAINS_S
    },
    **{
        f"a ranking by estimates of {grain}": (
            f"web top of {grain}",
            of("top", none_listed, window=grain, name="words", region="us"),
        )
        for grain in GRAINS_S
    },
    "a strict value": ("web strict totals, exact", of("many", of_counter("stock:a", net=4))),
}


@pytest.mark.parametrize("lie", LIES)
def test_a_lie_is_told_of(lie: str) -> None:
    where, told = LIES[lie]
    found, _ = differences(told, told)
    assert where in {one.where for one in found}
    wheres = {where, where.replace("exact", "cached")}
    assert {one.where for one in found} <= wheres, "and nothing else is"


def test_one_process_of_two_is_enough_to_be_told_of() -> None:
    total = of("many", of_counter("likes:3", net=7), mode="cached", region="eu")
    for lies in ((total,), (_truth, total)):
        found, _ = differences(*lies)
        assert [one.key for one in found] == [("likes:3", "eu", EVER)]


def test_what_is_incomplete_is_asked_again_until_it_is_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(asking, "AGAIN_EVERY_S", 0.0)
    told: list[Asked] = []

    def lie(asked: Asked, document: dict[str, Any]) -> None:
        if asked not in told and asked["what"] != "increment":
            told.append(asked)
            document |= {"complete": False, "windows": [], "top": [], "counters": [], "net": 0}

    found, _ = differences(lie, lie)
    assert found == []
    assert len(told) > 100


def test_a_decision_is_waited_for_as_long_as_anything_else(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(asking, "AGAIN_EVERY_S", 0.0)
    tries = [0]

    def busy(_asked: Asked, document: dict[str, Any]) -> None:
        tries[0] += 1
        document["status"] = 503 if tries[0] < 50 else 200

    assert differences(of("increment", busy))[0] == []
    assert tries[0] == 50
    monkeypatch.setattr(asking, "AGAIN_S", 0.05)
    for status in (503, 504, 500, 404):
        never = of("increment", lambda _, document: document.update(status=status))  # noqa: B023
        [found] = differences(never)[0]
        assert (found.kind, found.where) == ("answer", "web /counters/stock%3Aa/increment")


@pytest.mark.parametrize(
    "never", [{"complete": False}, {"status": 503}, {"status": 500}, {"status": 404}]
)
def test_what_never_is_answered_or_complete_is_told(
    never: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(asking, "AGAIN_S", 0.1)
    for asked in (
        {"what": "top", "name": "words", "window": "1m", "region": "us", "k": "3"},
        {"what": "uniques", "by": "1d", "region": "eu", "name": "likes:0"},
    ):
        lie = of(asked.pop("what"), lambda _, document: document.update(never), **asked)
        found, _ = differences(lie, lie)
        assert "answer" in {one.kind for one in found}
