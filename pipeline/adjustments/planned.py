"""From what somebody wants to records for the log: each with what it will change, none twice.

Nothing is written here. What is stored under the same id already is left out; under the same id
with other contents it is a mistake, since the log would keep the first.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pipeline.adjustments.lines import Mistake
from pipeline.adjustments.values import containing, stored, target_of, values
from pipeline.reads.applied_rules import newest_rules
from pipeline.rules import EARLINESS_MS, CountingRules
from schemas.adjustments import BY_MAX, BY_MIN, Adjustment

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pipeline.adjustments.lines import Line
    from pipeline.adjustments.values import Target
    from pipeline.reads.reads import Reads
    from schemas.adjustments import Contents, Draft


@dataclass(frozen=True, slots=True)
class Planned:
    """The adjustments to send, in order, and how many are stored already."""

    adjustments: list[Adjustment]
    stored: int
    mistakes: list[Mistake]


def plan(reads: Reads, lines: Sequence[Line]) -> Planned:
    """What to send for these lines, as of now. Blocks; raises TryAgainError.

    Every draft has an id, and says who and why.
    """
    drafts = [line.draft for line in lines]
    known = stored(reads, drafts)
    rules = newest_rules(reads) or CountingRules()
    now_ms = reads.now_ms()
    mistakes = []
    new = []
    for number, draft in lines:
        before = known.get((draft.counter, draft.id or ""))
        reason = mistake_of(draft, before, rules, now_ms)
        if reason is not None:
            mistakes.append(Mistake(number, reason))
        elif before is None:
            new.append(draft)
    if mistakes:
        return Planned([], 0, mistakes)
    return Planned(completed(new, values(reads, new), now_ms), len(drafts) - len(new), [])


def mistake_of(
    draft: Draft, before: Contents | None, rules: CountingRules, now_ms: int
) -> str | None:
    """Why a draft cannot be sent; `before` is what is stored under its id. Pure."""
    if before is not None and before != draft.contents:
        return f"id: {draft.id} of {draft.counter} is stored with other contents; give another id"
    if (draft.window or 0) > now_ms + EARLINESS_MS:
        return "window: it has not begun yet"
    if rules.of(draft.counter).strict is not None:
        return "counter: its family is strict; correct it by a command, which has an id, too"
    if draft.region and not rules.of(draft.counter).regions:
        return "region: the rules of its family keep no regions"
    return None


def completed(drafts: Sequence[Draft], now: Mapping[Target, int], at_ms: int) -> list[Adjustment]:
    """Drafts with what is there before and after each, one after the other. Pure."""
    values = dict(now)
    made = []
    for draft in drafts:
        before = values.get(target_of(draft), 0)
        made.append(
            Adjustment.model_validate(
                {
                    **draft.model_dump(),
                    "before": _fitting(before),
                    "after": _fitting(before + draft.by),
                    "at": at_ms,
                }
            )
        )
        for target in containing(draft):
            values[target] = values.get(target, 0) + draft.by
    return made


def _fitting(value: int) -> int | None:
    """What a column of 64 bits can hold; what it cannot is not told."""
    return value if BY_MIN <= value <= BY_MAX else None
