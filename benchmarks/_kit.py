"""How contestants are measured and shown: interleaved rounds, checked answers, medians, ratios."""

from __future__ import annotations

import argparse
import gc
import json
import platform
import statistics
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence


class WrongAnswerError(Exception):
    """A contestant counted wrongly, so its time means nothing."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """One run of a contestant: how much work it did, in which time, and what came out."""

    units: int
    seconds: float
    answer: Mapping[Any, int] | None = None
    expected: Mapping[Any, int] | None = None

    def check(self, name: str) -> None:
        """Raises WrongAnswerError, with one difference, unless the answer is the expected one."""
        if self.answer == self.expected:
            return
        answer, expected = self.answer or {}, self.expected or {}
        keys = [key for key in {**answer, **expected} if answer.get(key) != expected.get(key)]
        example = keys[0]
        raise WrongAnswerError(
            f"{name}: {len(keys)} of {len(expected)} counts are wrong, for example {example}: "
            f"{answer.get(example)} instead of {expected.get(example)}"
        )


@dataclass(slots=True)
class Contestant:
    """Something to measure. `run` does the work once; only its own clock decides what counts."""

    name: str
    run: Callable[[], Outcome]
    rates: list[float] = field(default_factory=list)

    def take_turn(self, *, counted: bool = True) -> None:
        """Run once, check the answer, and keep the rate unless this is a warm-up."""
        outcome = self.run()
        outcome.check(self.name)
        if counted:
            self.rates.append(outcome.units / outcome.seconds)

    @property
    def rate(self) -> float:
        """Units per second, the median of the rounds."""
        return statistics.median(self.rates)

    def ratio_to(self, other: Contestant) -> float:
        """How many times as quick as the other: the median of the ratios within each round."""
        return statistics.median(
            mine / theirs for mine, theirs in zip(self.rates, other.rates, strict=True)
        )

    @property
    def spread(self) -> float:
        """How far apart the slowest and the quickest round are, as a part of the median."""
        return (max(self.rates) - min(self.rates)) / self.rate


def compete(contestants: Sequence[Contestant], rounds: int, warm_ups: int = 1) -> None:
    """Let all take turns, so that a busy moment of the machine hits all of them alike.

    Each round begins with another contestant, because what ran before may slow the next one down.
    """
    gc.collect()
    gc.freeze()  # or each contestant would pay for looking through the data of all
    for _ in range(warm_ups):
        for contestant in contestants:
            contestant.take_turn(counted=False)
    for number in range(rounds):
        first = number % len(contestants)
        for contestant in [*contestants[first:], *contestants[:first]]:
            contestant.take_turn()


def print_rates(
    title: str, unit: str, contestants: Sequence[Contestant], baselines: Sequence[Contestant]
) -> None:
    """The table of one contest; each baseline gets a column of ratios to it."""
    headings = "".join(f"{'x ' + baseline.name:>28}" for baseline in baselines)
    print(f"{title}\n  {'':<34}{unit + '/s':>12}{'us/' + unit:>12}{'spread':>9}{headings}")
    for one in contestants:
        ratios = "".join(f"{one.ratio_to(baseline):>28.2f}" for baseline in baselines)
        print(
            f"  {one.name:<34}{one.rate:>12,.0f}{1e6 / one.rate:>12.3f}{one.spread:>9.0%}{ratios}"
        )


def rates_document(contestants: Sequence[Contestant]) -> dict[str, Any]:
    """The same for a machine to read: by name, the median, and every round's rate."""
    return {
        one.name: {"per_s": one.rate, "spread": one.spread, "rounds_per_s": one.rates}
        for one in contestants
    }


def parser(description: str | None, events: int, rounds: int) -> argparse.ArgumentParser:
    """The options that every benchmark has."""
    options = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--events", type=int, default=events, help=f"default {events}")
    options.add_argument("--rounds", type=int, default=rounds, help=f"default {rounds}")
    options.add_argument("--json", type=Path, metavar="FILE", help="write the figures there too")
    return options


def write_json(path: Path | None, name: str, figures: Mapping[str, Any]) -> None:
    """Write the figures with what they were measured on; nothing without a path."""
    if path is None:
        return
    machine = {"python": platform.python_version(), "machine": platform.machine()}
    document = {"benchmark": name, "arguments": sys.argv[1:], **machine, **figures}
    path.write_text(json.dumps(document, indent=2) + "\n")
