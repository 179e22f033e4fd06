"""Reasons of dead letters as a bounded set of kinds, for counting them. Pure.

A reason is a sentence for people, and may hold numbers or what ClickHouse said. Its kind is told by
how it begins, in the words of the modules that give reasons.
"""

from __future__ import annotations

from typing import Literal, get_args

from pipeline.decode import RETRY_REASON, TOMBSTONE_REASON
from pipeline.placing import EARLY_REASON, OVERFLOW_REASON
from schemas.adjustments import ADJUSTMENT_REASON
from schemas.events import FIELDS

ReasonKind = Literal[
    "too_late",
    "too_early",
    "overflow",
    "not_json",
    "counter",
    "delta",
    "at",
    "member",
    "region",
    "id",
    "frame",
    "batch",
    "tombstone",
    "retry",
    "adjustment",
    "rules",
    "clickhouse",
    "other",
]
"""A field's name stands for an event whose first mistake is in that field."""

REASON_KINDS: tuple[ReasonKind, ...] = get_args(ReasonKind)

_LATE_ENDING = "too late"
_COLUMN = (": the column ", " bytes in one frame")
"""What tells a mistake in a whole column of a frame from one in a single event."""

_BEGINNINGS: tuple[tuple[str, ReasonKind], ...] = (
    ("ClickHouse refused", "clickhouse"),
    (ADJUSTMENT_REASON, "adjustment"),
    (EARLY_REASON, "too_early"),
    (OVERFLOW_REASON, "overflow"),
    (TOMBSTONE_REASON, "tombstone"),
    (RETRY_REASON, "retry"),
    ("not counting rules", "rules"),
    ("frame: ", "frame"),
    ("batch: ", "batch"),
    ("not JSON", "not_json"),
    ("not a JSON object", "not_json"),
    ("not UTF-8", "not_json"),
    ("empty; give a JSON object", "not_json"),
    ("nested deeper", "not_json"),
    ("more than one JSON value", "not_json"),
)
_FIELDS: dict[str, ReasonKind] = {
    name: kind for kind in REASON_KINDS for name in FIELDS if name == kind
}


def kind_of(reason: str) -> ReasonKind:
    """The kind of a reason; `other` for one that is not known. Never raises."""
    for beginning, kind in _BEGINNINGS:
        if reason.startswith(beginning):
            return kind
    field = reason.partition(":")[0]
    if field == "at" and reason.endswith(_LATE_ENDING):
        return "too_late"
    if any(words in reason for words in _COLUMN):
        return "frame"
    return _FIELDS.get(field, "other")
