"""What follows from the answers: the strategy, why, what it costs, and the family's settings. Pure.

Settings are those that differ from the defaults, which are in schemas/rules.py alone.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pipeline.advise import figures
from pipeline.advise.questions import asked
from pipeline.advise.settings_text import family_text
from pipeline.planning.needed import shards_for

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pipeline.advise.figures import Figure

SHARD_RATE_MAX = 10_000
"""TALLY_SHARD_RATE_MAX's default: what one shard of a counter may take."""

CELLS_MAX_MANY = 5_000_000
FILTER_ERROR = 0.001
LIMIT_EXAMPLE = 100


@dataclass(slots=True)
class Advice:
    """What to do for one family. `settings` is what `family_text` was made of."""

    family: str
    strategy: str = ""
    reasons: list[str] = field(default_factory=list)
    costs: list[Figure] = field(default_factory=list)
    settings: dict[str, Any] = field(default_factory=dict)
    steps: list[str] = field(default_factory=list)

    @property
    def toml(self) -> str:
        return family_text(self.family, self.settings)


def advise(family: str, answers: Mapping[str, str], rate: int = 4 * SHARD_RATE_MAX) -> Advice:
    """The advice for a family whose questions are all answered.

    `rate` is how many increments a second a hot counter has; it matters where one is expected.
    Raises KeyError where an answer is missing.
    """
    given = {question.name: answers[question.name] for question in asked(answers)}
    advice = Advice(family)
    match given["need"]:
        case "never-over":
            _strict(advice, given["limit"])
        case "who-is-in":
            _members(advice, given)
        case _:
            _counts(advice, given, rate)
    advice.steps.insert(0, "paste the settings into tally.toml, then: tally rules check, apply")
    return advice


def _strict(advice: Advice, limit: str) -> None:
    advice.strategy = "strict: every request is decided, once"
    advice.reasons.append(
        "an ordinary counter counts what happened and refuses nothing; only a decision before the"
        " answer keeps two requests from taking the last one"
    )
    advice.settings["kind"] = "strict"
    if limit == "stock":
        advice.steps.append(
            f"fill it: POST /api/v1/counters/{advice.family}:KEY/increment; take: .../decrement"
        )
    else:
        sliding = limit == "any-period"
        window = "sliding" if sliding else "fixed"
        advice.settings["strict"] = {"window": window, "limit": LIMIT_EXAMPLE, "per": "1m"}
        advice.reasons.append(
            "a sliding window never grants more than the limit in any period"
            if sliding
            else "fixed windows are the cheapest; around an edge twice the limit may be granted"
        )
        advice.steps.append(f"ask: POST /api/v1/counters/{advice.family}:KEY/acquire")
        advice.steps.append("put your own limit and period in place of 100 in 1m")
    advice.steps.append("give each request an id of your own, and retry with the same one")
    advice.costs.append(figures.STRICT)


def _members(advice: Advice, given: Mapping[str, str]) -> None:
    advice.settings["once_per"] = "member"
    advice.settings["distinct"] = {"enabled": False}
    advice.reasons.append(
        "a member counts once for a counter however often it is sent, so retries need no ids"
    )
    advice.reasons.append("the total is the number of members, so no distinct count is kept beside")
    if given["taken-back"] == "no" and given["members"] == "filter":
        advice.strategy = "once per member, by a filter"
        advice.settings["once_per_error"] = FILTER_ERROR
        advice.reasons.append("a filter never counts a repeat; it misses one new member in 1,000")
        advice.costs.append(figures.MEMBERS_FILTER)
    else:
        advice.strategy = "once per member, exactly"
        advice.reasons.append("each member is kept, so the total is exact and can be taken back")
        advice.costs.append(figures.MEMBERS_EXACT)
    advice.steps.append(
        "send `member` with each event, and keep the log for ever: a replay needs all of it"
    )
    _shared(advice, given)


def _counts(advice: Advice, given: Mapping[str, str], rate: int) -> None:
    if given.get("precision") == "estimate":
        advice.strategy = "sketched: bounded memory, estimates with bounds"
        advice.settings["kind"] = "sketched"
        advice.reasons.append("rows do not grow with the number of counters, and sums stay exact")
        advice.costs.append(figures.SKETCHES)
    else:
        advice.strategy = "exact"
        advice.reasons.append("cells are summed and never estimated, late events included")
        advice.costs += [figures.CELLS, figures.COUNTING]
        if given["counters"] == "millions":
            advice.strategy = "exact, with room for millions of counters"
            advice.settings["cells_max"] = CELLS_MAX_MANY
            advice.reasons.append("a shard may open more cells in a minute than by default")
            advice.costs.append(figures.MANY_CELLS)
            advice.steps.append("spread them: 32 partitions or more (tally partitions 32)")
    if given["retries"] == "yes":
        advice.reasons.append("an event with an `id` is counted once, whoever sends it again")
        advice.costs.append(figures.IDS)
        advice.steps.append("give each event an id; key records by `counter NUL id`, as docs say")
    _shards(advice, given["heat"], rate)
    _uniques(advice, given["uniques"])
    _shared(advice, given)


def _shards(advice: Advice, heat: str, rate: int) -> None:
    n = shards_for(rate, SHARD_RATE_MAX)
    if heat == "some":
        advice.reasons.append("a counter is split while it is hot, by itself: `adaptive` shards")
        return
    advice.costs.append(figures.SHARDS)
    if heat == "known":
        advice.reasons.append("a hint splits the one counter before its load comes")
        advice.steps.append(f"before it: tally shard {advice.family}:KEY --expect {rate}")
    else:
        advice.settings["shards"] = max(n, 2)
        advice.strategy += f", {max(n, 2)} shards"
        advice.reasons.append(f"{rate:,} a second are on {max(n, 2)} partitions from the first on")


def _uniques(advice: Advice, uniques: str) -> None:
    if uniques == "no":
        advice.settings["distinct"] = {"enabled": False}
        advice.reasons.append("registers of members, most of what a flush costs, are left out")
        return
    if uniques == "minutes":
        advice.settings["distinct"] = {"grains": ["1m", "1h", "1d"]}
    advice.reasons.append("HyperLogLog tells different members with bounds; send `member`")
    advice.costs.append(figures.UNIQUES)


def _shared(advice: Advice, given: Mapping[str, str]) -> None:
    if given["trends"] == "yes":
        advice.reasons.append("trends compare with the same hour on earlier days")
        advice.costs.append(figures.TRENDS)
    else:
        advice.settings["trends"] = {"enabled": False}
    if given["regions"] == "no":
        advice.settings["regions"] = False
        advice.reasons.append("one cell for all regions instead of one for each")
