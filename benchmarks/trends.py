"""What trending finds in synthetic weeks, and what it takes for a trend that is none.

Run: python -m benchmarks.trends [--seeds 11-30] [--choose] [--first-day] [--jobs N] [--json FILE]

Each seed makes a week (benchmarks/_week.py) whose last day is scored minute by minute, in three
regions and in all together, by the default rules. Their thresholds were chosen on seeds 1 to 10 by
`--choose`, which compares some; seeds 11 to 30 tell how well they do.
"""

from __future__ import annotations

import argparse
import os
import statistics
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks._kit import write_json
from benchmarks._watch import watch
from benchmarks._week import DAY, LAST_DAY, MINUTES, PHENOMENA, REGIONS, make_week
from pipeline.rules import TrendRules

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks._watch import Watched
    from benchmarks._week import Phenomenon, Week

CHOICES = (5.0, 6.0, 6.5, 7.0, 8.0)
NO_TRENDS = {("giant", "eu"), ("giant", "*"), ("fluke", "eu"), ("fluke", "*"), ("bot", "eu"),
             ("bot", "*"), ("local burst", "*")}  # fmt: skip
"""What must not be found, and where."""


@dataclass(frozen=True, slots=True)
class Finding:
    """When a phenomenon was found: in which window after its start, the first being 1; when it left
    after its end. None for never."""

    name: str
    region: str
    windows: int | None
    left: int | None


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one seed came to by one set of rules."""

    seed: int
    min_score: float
    findings: list[Finding]
    alarms: dict[str, int]
    alarms_first_day: dict[str, int]


def judge(week: Week, watched: Watched) -> tuple[list[Finding], dict[str, int]]:
    """The phenomena by region, and how often others entered though nothing happened to them."""
    findings = [
        _finding(one, region, week.starts[one.name], watched)
        for one in PHENOMENA
        for region in ("eu", "*")
    ]
    alarms = dict.fromkeys((*REGIONS, "*"), 0)
    own = {f"tag:{one.name}" for one in PHENOMENA}
    for (region, counter), spans in watched.spans.items():
        alarms[region] += 0 if counter in own else len(spans)
    return findings, alarms


def _finding(one: Phenomenon, region: str, start: int, watched: Watched) -> Finding:
    """What must not be found is found if it trends at any time; the others once they began."""
    spans = watched.spans.get((region, f"tag:{one.name}"), [])
    if (one.name, region) not in NO_TRENDS:
        spans = [span for span in spans if start <= span[0] < start + one.minutes]
    if not spans:
        return Finding(one.name, region, None, None)
    left = spans[-1][1]
    return Finding(
        one.name,
        region,
        spans[0][0] - start + 1,
        None if left is None else left - start - one.minutes,
    )


def run(seed: int, rules: Sequence[TrendRules], *, first_day: bool) -> list[Outcome]:
    """One seed's week, its last day scored, and its first, which has no history, if wanted."""
    week = make_week(seed)
    last = [judge(week, one) for one in watch(week, rules, LAST_DAY, MINUTES)]
    first: list[dict[str, int]] = [{} for _ in rules]
    if first_day:
        first = [judge(week, one)[1] for one in watch(week, rules, 0, DAY)]
    return [
        Outcome(seed, one.min_score, findings, alarms, alarms_first_day)
        for one, (findings, alarms), alarms_first_day in zip(rules, last, first, strict=True)
    ]


def print_report(outcomes: Sequence[Outcome]) -> None:
    print(f"{len(outcomes)} seeds, min_score {outcomes[0].min_score}\n")
    print(f"  {'phenomenon':<14}{'region':<8}{'wanted':<8}{'found':>7}{'in two':>8}"
          f"{'windows':>9}{'max':>6}{'left':>6}{'max':>6}")  # fmt: skip
    for row in rows(outcomes):
        print(
            f"  {row['phenomenon']:<14}{row['region']:<8}{row['wanted']:<8}{row['found']:>7}"
            f"{row['in_two']:>8}{row['windows']:>9}{row['windows_max']:>6}"
            f"{row['left']:>6}{row['left_max']:>6}"
        )
    print("\n  false alarms a day, mean and max")
    for region in outcomes[0].alarms:
        last = [one.alarms[region] for one in outcomes]
        first = [one.alarms_first_day[region] for one in outcomes if one.alarms_first_day]
        text = f"; without history {_mean_max(first)} ({len(first)} seeds)" if first else ""
        print(f"  {region:<6}{_mean_max(last)}{text}")


def rows(outcomes: Sequence[Outcome]) -> list[dict[str, Any]]:
    """The table: medians and greatest ones over those seeds that found it; - for none."""
    table = []
    for at, finding in enumerate(outcomes[0].findings):
        all_ = [one.findings[at] for one in outcomes]
        windows = [one.windows for one in all_ if one.windows is not None]
        left = [one.left for one in all_ if one.left is not None]
        table.append(
            {
                "phenomenon": finding.name,
                "region": finding.region,
                "wanted": "no" if (finding.name, finding.region) in NO_TRENDS else "yes",
                "found": len(windows),
                "in_two": sum(one <= 2 for one in windows),
                "windows": statistics.median(windows) if windows else "-",
                "windows_max": max(windows, default="-"),
                "left": statistics.median(left) if left else "-",
                "left_max": max(left, default="-"),
            }
        )
    return table


def _mean_max(values: Sequence[int]) -> str:
    return f"{statistics.mean(values):.2f} ({max(values)})"


def print_choices(by_rules: Sequence[Sequence[Outcome]]) -> None:
    print(f"{len(by_rules[0])} seeds\n")
    print(f"  {'min_score':<11}{'alarms/day':>11}{'burst in two':>14}{'found':>8}{'wrongly':>9}")
    for outcomes in by_rules:
        table = rows(outcomes)
        alarms = statistics.mean(sum(one.alarms.values()) for one in outcomes)
        bursts = [row for row in table if row["phenomenon"] == "burst" and row["region"] == "eu"]
        found = sum(row["found"] for row in table if row["wanted"] == "yes")
        wrongly = sum(row["found"] for row in table if row["wanted"] == "no")
        wanted = sum(len(outcomes) for row in table if row["wanted"] == "yes")
        print(f"  {outcomes[0].min_score:<11}{alarms:>11.2f}{bursts[0]['in_two']:>14}"
              f"{f'{found}/{wanted}':>8}{wrongly:>9}")  # fmt: skip


def _seeds(text: str) -> range:
    first, _, last = text.partition("-")
    return range(int(first), int(last or first) + 1)


def main() -> None:
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--choose", action="store_true", help="compare thresholds, seeds 1-10")
    options.add_argument("--seeds", type=_seeds, help="default 11-30; with --choose 1-10")
    options.add_argument("--jobs", type=int, default=os.cpu_count(), help="processes at a time")
    options.add_argument("--first-day", action="store_true", help="score the first day, too")
    options.add_argument("--json", type=Path, metavar="FILE", help="write the figures there too")
    given = options.parse_args()
    rules = [TrendRules(min_score=one) for one in CHOICES] if given.choose else [TrendRules()]
    seeds = given.seeds or (range(1, 11) if given.choose else range(11, 31))
    with ProcessPoolExecutor(given.jobs) as pool:
        found = list(pool.map(partial(run, rules=rules, first_day=given.first_day), seeds))
    by_rules = list(zip(*found, strict=True))
    if given.choose:
        print_choices(by_rules)
    else:
        print_report(by_rules[0])
    figures = {"outcomes": [rows(one) for one in by_rules],
               "alarms": [[each.alarms for each in one] for one in by_rules]}  # fmt: skip
    write_json(given.json, "trends", figures)


if __name__ == "__main__":
    main()
