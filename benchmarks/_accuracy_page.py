"""docs/sketches/accuracy.md, made of the figures."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks import _accuracy_hour as hour
from benchmarks import _accuracy_keys as keys
from benchmarks import _accuracy_tables as tables
from benchmarks._accuracy_distinct import held_at_least
from pipeline.reads.heavy_sql import CANDIDATES_MAX
from schemas.rules import Sketch

if TYPE_CHECKING:
    from benchmarks._accuracy_tables import Trials


def page(trials: Trials, seeds: int) -> str:
    """The page as Markdown, every figure and every verdict from the trials."""
    return "\n\n".join(
        (
            _head(trials, seeds),
            _distinct(trials, seeds),
            _frequency(trials),
            _heavy(trials),
            _hour(trials),
        )
    )


def _head(trials: Trials, seeds: int) -> str:
    broken = tables.broken_promises(trials)
    verdict = "Every promise was kept."
    if broken:
        verdict = "Promises that were not kept:\n\n" + _list(broken)
    return f"""\
# How right the sketches are

This page is written by a command; the same seeds give the same figures:

    python -m benchmarks.accuracy --seeds {seeds} --write

It measures seeds 1 to {seeds}, and fails if a promise is not kept. A list of the {keys.TOP}
heaviest should have a recall of {keys.RECALL}; that is a wish, not a promise, and **bold** where it
is not fulfilled. Keys are drawn independently, so no key is heavy at some times only.

{verdict}"""


def _distinct(trials: Trials, seeds: int) -> str:
    return f"""\
## Distinct members

![Relative error against the number of members, with the promised band](accuracy.svg)

Each seed has other members, and is looked at when it has 1, 10, … of them, at three precisions.
`promised` is the standard error of [Distinct](distinct.md). The root mean square of {seeds} seeds
is a sample and may by chance be above it. A row fails where chance would do so about once in a
thousand times or less: in the root mean square, or with fewer than {held_at_least(seeds)} of
{seeds} bounds around the truth. The bounds promise 95 %. All sizes together, the truth is within
{tables.distinct_held(trials)}.

{tables.distinct_table(trials)}"""


def _frequency(trials: Trials) -> str:
    return f"""\
## Counts by key

{keys.EVENTS:,} events of {keys.KEYS:,} possible keys by Zipf's law, nothing taken away. Every
possible key is asked for, those that never came too. [Frequency](frequency.md) promises that no
estimate is below the truth, and that each is above it by at most `error` of all events with a
confidence of {keys.CONFIDENCE:.0%}. `mean over` is by how much they are too high, as a share of all
events; `99 % over by less than` and `in bounds` are of the worst seed.

{tables.frequency_table(trials)}"""


def _heavy(trials: Trials) -> str:
    return f"""\
## The heaviest keys

The same events in their order. The bounds of [Heavy](heavy.md) are certain, so none may fail, nor
may a key be missing that has more than `missed_max`. A key with as many as the {keys.TOP}th is as
good as that one. `recall` is the mean of the seeds, `least` that of the worst.

{tables.heavy_table(trials)}

Every seed has a recall of {keys.RECALL} or more

{_list(tables.heavy_reach(trials))}"""


def _hour(trials: Trials) -> str:
    return f"""\
## The heaviest counters of an hour, by the pipeline

What `tally top` does for a [sketched family](sketched-families.md), computed here from the same
sketches without servers: {hour.EVENTS:,} events in an hour, each counter on one of {hour.SHARDS}
shards. Each shard names its {hour.CAPACITY:,} heaviest counters of each minute
(`keys = {hour.CAPACITY}`, the default); the buckets of all shards and minutes are added up; up to
{CANDIDATES_MAX:,} names are ranked. The default is
`error = {Sketch().error}`; the rules take {hour.RULES_ERROR_MIN} at least.

`has a name`: how many of the true {keys.TOP} are among the names at all, in the worst seed.
`by weight`: the mean recall of what `tally top` does for up to three hours, which is to rank names
by what the summaries know of them for certain. `recall` and `least`: by what their buckets say, as
longer times are ranked, and families with removals; the mean and the worst seed.

{tables.hour_table(trials)}

By buckets, a recall of {keys.RECALL} is reached

{_list(tables.hour_reach(trials))}

Where it is not, the names are there, so more `keys` do not help: near rank {keys.TOP} counters
differ by less than what others put into their buckets, the more so the flatter the counts are. A
smaller `error` helps; half of it takes twice the [memory](frequency.md#memory).
"""


def _list(lines: list[str]) -> str:
    return "\n".join(f"- {line}" for line in lines)
