"""The trials of all seeds as tables, and which promises they break."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from benchmarks import _accuracy_keys
from benchmarks._accuracy_distinct import distinct_rows
from benchmarks._accuracy_keys import RECALL

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from benchmarks._accuracy_distinct import DistinctTrial
    from benchmarks._accuracy_hour import HourTrial
    from benchmarks._accuracy_keys import FrequencyTrial, HeavyTrial

_ROUNDING = 1e-6  # a mean of shares may be a last digit off


@dataclass(frozen=True, slots=True)
class Trials:
    """What was found with one seed, or with many."""

    distinct: list[DistinctTrial]
    frequency: list[FrequencyTrial]
    heavy: list[HeavyTrial]
    hour: list[HourTrial]


def joined(seeds: Iterable[Trials]) -> Trials:
    """The trials of all seeds together."""
    found = Trials([], [], [], [])
    for one in seeds:
        found.distinct.extend(one.distinct)
        found.frequency.extend(one.frequency)
        found.heavy.extend(one.heavy)
        found.hour.extend(one.hour)
    return found


def broken_promises(trials: Trials) -> list[str]:
    """One sentence for each promise that was not kept; none is what is wanted."""
    return [
        *(
            f"Distinct, precision {row.precision}, {row.members:,} members: off by "
            f"{row.root_mean_square:.2%}, promised {row.promised:.2%}; "
            f"{row.held} of {row.seeds} bounds hold the truth"
            for row in distinct_rows(trials.distinct)
            if not row.is_kept
        ),
        *(
            f"Frequency, error {one.error}, Zipf {one.exponent}: {one.below} estimates below the "
            f"truth, {one.within:.2%} within bounds"
            for one in trials.frequency
            if one.below or one.within < _accuracy_keys.CONFIDENCE
        ),
        *(
            f"Heavy, {one.capacity} keys, Zipf {one.exponent}: {one.broken} bounds do not hold, "
            f"the widest is {one.widest:.4%}"
            for one in trials.heavy
            if one.broken or one.widest > 1 / (one.capacity + 1)
        ),
    ]


def distinct_table(trials: Trials) -> str:
    rows = distinct_rows(trials.distinct)
    return _table(
        (
            "precision",
            "members",
            "mean error",
            "root mean square",
            "promised",
            "worst",
            "in bounds",
        ),
        (
            (
                row.precision,
                f"{row.members:,}",
                f"{row.mean:+.2%}",
                f"{row.root_mean_square:.2%}",
                f"{row.promised:.2%}",
                f"{row.worst:.2%}",
                f"{row.held} of {row.seeds}",
            )
            for row in rows
        ),
    )


def distinct_held(trials: Trials) -> str:
    """How many bounds hold, all numbers of members together."""
    parts = []
    for precision in sorted({one.precision for one in trials.distinct}):
        holds = [one.holds for one in trials.distinct if one.precision == precision]
        parts.append(f"{sum(holds)} of {len(holds)} at precision {precision}")
    return ", ".join(parts)


def frequency_table(trials: Trials) -> str:
    return _table(
        ("Zipf", "error", "below the truth", "mean over", "99 % over by less than", "in bounds"),
        (
            (
                exponent,
                f"{error:.1%}",
                sum(one.below for one in group),
                f"{_mean(one.mean for one in group):.4%}",
                f"{max(one.nearly_worst for one in group):.4%}",
                f"{_share(min(one.within for one in group))}",
            )
            for (exponent, error), group in _grouped(trials.frequency, "exponent", "error")
        ),
    )


def heavy_table(trials: Trials) -> str:
    return _table(
        ("Zipf", "keys", "recall", "least", "bounds that fail", "widest bounds", "promised"),
        (
            (
                exponent,
                f"{capacity:,}",
                _recall(_mean(one.recall for one in group)),
                _recall(min(one.recall for one in group)),
                sum(one.broken for one in group),
                f"{max(one.widest for one in group):.4%}",
                f"{1 / (capacity + 1):.4%}",
            )
            for (exponent, capacity), group in _grouped(trials.heavy, "exponent", "capacity")
        ),
    )


def hour_table(trials: Trials) -> str:
    return _table(
        ("Zipf", "error", "has a name", "by weight", "recall", "least"),
        (
            (
                exponent,
                error,
                _recall(min(one.named for one in group)),
                _recall(_mean(one.weighed for one in group)),
                _recall(_mean(one.ranked for one in group)),
                _recall(min(one.ranked for one in group)),
            )
            for (exponent, error), group in _grouped(trials.hour, "exponent", "error")
        ),
    )


def heavy_reach(trials: Trials) -> list[str]:
    """For each exponent, with how many keys every seed has the recall that is asked for."""
    lines = []
    for (exponent,), group in _grouped(trials.heavy, "exponent"):
        enough = [
            capacity
            for (capacity,), part in _grouped(group, "capacity")
            if _is_enough(min(one.recall for one in part))
        ]
        reached = f"with {min(enough):,} keys" if enough else "with none of these sizes"
        lines.append(f"Zipf {exponent}: {reached}")
    return lines


def hour_reach(trials: Trials) -> list[str]:
    """For each exponent, by which error the mean and by which every seed reaches the recall."""
    lines = []
    for (exponent,), group in _grouped(trials.hour, "exponent"):
        by_error = list(_grouped(group, "error"))
        mean = [e for (e,), part in by_error if _is_enough(_mean(one.ranked for one in part))]
        every = [e for (e,), part in by_error if _is_enough(min(one.ranked for one in part))]
        lines.append(
            f"Zipf {exponent}: on average {_greatest(mean)}, with every seed {_greatest(every)}"
        )
    return lines


def _greatest(errors: Sequence[float]) -> str:
    return f"at `error = {max(errors)}`" if errors else "at none of these errors"


def _grouped(trials: Sequence[Any], *names: str) -> Iterator[tuple[tuple[Any, ...], list[Any]]]:
    """Trials that agree in these fields, ascending by them."""
    groups: dict[tuple[Any, ...], list[Any]] = {}
    for one in trials:
        groups.setdefault(tuple(getattr(one, name) for name in names), []).append(one)
    yield from sorted(groups.items())


def _mean(values: Iterable[float]) -> float:
    found = list(values)
    return sum(found) / len(found)


def _share(value: float) -> str:
    """As a percentage that is 100 only if nothing is missing."""
    return "100 %" if value == 1 else f"{min(value, 0.9999):.2%}"


def _recall(value: float) -> str:
    """Rounded down, and bold where it is less than what is asked for."""
    text = f"{math.floor(value * 1000 + _ROUNDING) / 1000:.3f}"
    return text if _is_enough(value) else f"**{text}**"


def _is_enough(recall: float) -> bool:
    return recall > RECALL - _ROUNDING


def _table(heads: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines)
