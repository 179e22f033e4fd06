"""Which refused places a shard's workers remember, told from its changelog. Pure.

A retry is counted only if its place is remembered. Places of a log that was given up are not, nor
those beyond a number; a retry of one would be skipped without a word.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import msgspec

from pipeline.changelog import FORMAT, POSITION, REFUSED, PositionValue
from pipeline.errors import OperatorError
from pipeline.refused import PLACES_MAX, WHOLE_RECORD, RefusedFact, facts_at

if TYPE_CHECKING:
    from pipeline.letters.letter import LetterKey
    from pipeline.refused import RefusedPlace

TOO_OLD = f"older than the {PLACES_MAX:,} newest of their shard, which is what workers remember"
OTHER_LOG = (
    "of a log that is not counted any more, so workers would skip them; give their events to "
    "`tally produce`, each once"
)
NOT_YET = "not confirmed by a checkpoint yet; run it again when a worker has gone on"

_decode: msgspec.msgpack.Decoder[Any] = msgspec.msgpack.Decoder()
_decode_position = msgspec.msgpack.Decoder(PositionValue).decode
_FOREIGN = (msgspec.MsgspecError, ValueError, TypeError, RecursionError)


def _foreign(what: object) -> OperatorError:
    return OperatorError(
        f"the changelog holds a record that Tally never writes ({str(what)[:200]!r}); check who "
        "else writes to that topic"
    )


@dataclass(frozen=True, slots=True)
class Remembered:
    """What a shard remembers at its last position, and from where to where its log goes now."""

    places: frozenset[RefusedPlace]
    position: int
    log_start: int
    log_end: int

    def is_open(self, key: LetterKey) -> bool:
        """Whether the next checkpoint may tell more about this letter."""
        return self.position <= key.offset < self.log_end

    def why_not(self, key: LetterKey) -> str | None:
        """Why a retry of this letter would not be counted; None if it would, or was."""
        if not self.log_start <= self.position <= self.log_end or key.offset >= self.log_end:
            return OTHER_LOG
        if self.is_open(key):
            return NOT_YET
        place = (key.offset, key.row, key.log_ms)
        whole = (key.offset, WHOLE_RECORD, key.log_ms)
        if place in self.places or (key.row == 0 and whole in self.places):
            return None
        is_full = len(self.places) >= PLACES_MAX
        return TOO_OLD if is_full and place < min(self.places) else OTHER_LOG


@dataclass(slots=True)
class ChangelogPlaces:
    """Gathers the positions and refused places of one partition's changelog, in log order."""

    next_offset: int = 0
    _records: dict[bytes, bytes] = field(default_factory=dict)

    def add(self, key: bytes, value: bytes | None) -> None:
        """Take one record; a tombstone forgets. Cells and ids are passed over.

        Raises OperatorError for what Tally never writes.
        """
        try:
            version, kind, *_ = _decode.decode(key)
        except _FOREIGN as error:
            raise _foreign(error) from error
        if version != FORMAT:
            raise OperatorError(
                f"the changelog has format {version}, this Tally reads {FORMAT}; run the version "
                "that wrote it"
            )
        if value is None:
            self._records.pop(key, None)
        elif kind in (POSITION, REFUSED):
            self._records[key] = value

    def remembered(self, log_start: int, log_end: int) -> Remembered:
        """What a worker that recovered now would remember. Raises OperatorError as `add`."""
        try:
            positions, facts = self._sorted()
        except _FOREIGN as error:
            raise _foreign(error) from error
        if not positions:
            return Remembered(frozenset(), log_start, log_start, log_end)
        incarnation, _, position, value = max(positions, key=lambda one: one[:3])
        ours = (fact for of, fact in facts if of == incarnation)
        known = facts_at(ours, value.refused_from, position)
        return Remembered(frozenset(fact[:3] for fact in known), position, log_start, log_end)

    def _sorted(
        self,
    ) -> tuple[list[tuple[int, int, int, PositionValue]], list[tuple[int, RefusedFact]]]:
        positions, facts = [], []
        for key, value in self._records.items():
            _, kind, *rest = _decode.decode(key)
            if kind == POSITION:
                offset, writer = map(int, rest)
                here = _decode_position(value)
                positions.append((here.incarnation, writer, offset, here))
            else:
                of, *fact = map(int, rest)
                facts.append((of, RefusedFact(*fact)))
        return positions, facts
