"""What trends: the question, the answer, and which scored minute it is from."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal, get_args

from pipeline.reads import spans
from pipeline.reads.applied_rules import newest_rules
from pipeline.reads.as_of import AsOf, as_of
from pipeline.reads.family_windows import newest_ms
from pipeline.reads.health import TRENDS_BEHIND_MS_MAX
from pipeline.reads.scored_minutes import Minute, open_minute, scored_minute
from pipeline.rules import FamilyRules

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pipeline.reads.reads import FlushedShard, Reads

ALL_REGIONS = "*"

Kind = Literal["rising", "new", "top"]
KINDS: tuple[Kind, ...] = get_args(Kind)


@dataclass(frozen=True, slots=True)
class Question:
    """Of which family and region, and by which minute: the last that was scored, unless told.

    `at_ms` is in an older one; `provisional` is the one that is not over. Not both.
    """

    family: str
    k: int = 10
    region: str = ALL_REGIONS
    at_ms: int | None = None
    provisional: bool = False
    kinds: tuple[Kind, ...] = KINDS


@dataclass(frozen=True, slots=True)
class TrendingCounter:
    """One line of a ranking. `entered` is the minute since which it trends; None for `top`."""

    rank: int
    counter: str
    observed: int
    expected: float
    score: float
    kind: str
    horizon_minutes: int
    entered: str | None


@dataclass(frozen=True, slots=True)
class TrendingAnswer:
    """A ranking, of which minute it is, and what to know of it.

    `window` is None where no minute is known. It is as of the end of its minute; a provisional one,
    as of when it was scored. It is complete if nothing newer may be missing.
    """

    family: str
    region: str
    window: str | None
    provisional: bool
    trending: list[TrendingCounter]
    known: AsOf
    remarks: list[str]

    def document(self) -> dict[str, Any]:
        """As a JSON document; `remarks` are in it only where there are some."""
        document = asdict(self)
        del document["known"]
        document |= {
            "as_of": self.known.text,
            "staleness_ms": self.known.staleness_ms,
            "complete": self.known.complete,
        }
        if not self.remarks:
            del document["remarks"]
        return document


def trending(reads: Reads, question: Question) -> TrendingAnswer:
    """What trends by one minute; its ranks are those before `kinds` and `k` choose among them.

    Blocks; raises NothingThereError for a family nobody counted, TryAgainError.
    """
    newest_ms(reads, question.family)
    positions = reads.positions()
    minute = _minute(reads, question)
    ranking = [_counter(row) for row in minute.rows]
    shown = [one for one in ranking if one.kind in question.kinds][: question.k]
    remarks = [*_remarks(reads, question, minute, ranking, shown)]
    remarks += _behind(question, minute, positions)
    return TrendingAnswer(
        family=question.family,
        region=question.region,
        window=None if minute.window_ms is None else spans.window_text(minute.window_ms),
        provisional=question.provisional,
        trending=shown,
        known=_known(reads, question, minute, positions),
        remarks=remarks,
    )


def _minute(reads: Reads, question: Question) -> Minute:
    if question.provisional:
        return open_minute(reads, question.family, question.region)
    return scored_minute(reads, question.family, question.region, question.at_ms)


def _counter(row: Sequence[Any]) -> TrendingCounter:
    rank, counter, observed, expected, score, kind, horizon_minutes, entered_s = row
    entered = None if entered_s is None else spans.window_text(int(entered_s) * 1000)
    return TrendingCounter(rank, counter, observed, expected, score, kind, horizon_minutes, entered)


def _known(
    reads: Reads, question: Question, minute: Minute, positions: Sequence[FlushedShard]
) -> AsOf:
    if minute.as_of_ms is None:
        return AsOf(None, None, complete=False)
    now_ms = reads.now_ms()
    known = as_of(positions, now_ms, reads.rules(), reads.partitions())
    # A minute asked for by name is over in every shard, so nothing of it can be missing.
    complete = question.at_ms is not None or known.complete
    return AsOf(minute.as_of_ms, max(0, now_ms - minute.as_of_ms), complete)


def _remarks(
    reads: Reads,
    question: Question,
    minute: Minute,
    ranking: Sequence[TrendingCounter],
    shown: Sequence[TrendingCounter],
) -> Iterator[str]:
    """Why there is nothing, or nothing that trends."""
    where = "" if question.region == ALL_REGIONS else f" in region {question.region!r}"
    if minute.missing is not None:
        yield minute.missing
    if not ranking:
        if not _is_wanted(reads, question.family):
            yield (
                f"trends of {question.family} are switched off; set trends.enabled in tally.toml "
                "and run tally rules apply, then it is scored from there on"
            )
        elif minute.missing is None:
            yield (
                f"nothing trends{where}: no counter of {question.family} had enough in the hour up "
                "to that minute to be ranked"
            )
    elif all(one.kind == "top" for one in ranking):
        yield f"nothing trends{where}" + ("; those listed lead by count alone" if shown else "")
    elif not shown:
        yield f"nothing{where} is {' or '.join(question.kinds)} in that minute"


def _behind(question: Question, minute: Minute, positions: Sequence[FlushedShard]) -> Iterator[str]:
    if question.at_ms is not None or minute.as_of_ms is None or not positions:
        return
    if min(shard.log_ms for shard in positions) - minute.as_of_ms > TRENDS_BEHIND_MS_MAX:
        yield "what was counted since is not scored yet; see tally status"


def _is_wanted(reads: Reads, family: str) -> bool:
    """Whether the rules that were applied last have trends of a family; unsure, they have."""
    rules = newest_rules(reads)
    return (FamilyRules() if rules is None else rules.of(f"{family}:")).trends.enabled
