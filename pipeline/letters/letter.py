"""What tells one dead letter from another, and how one is read back from its topic. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from pipeline.errors import OperatorError
from pipeline.lanes import CONTENT_TYPE_HEADER

if TYPE_CHECKING:
    from schemas.records import Headers


class LetterKey(NamedTuple):
    """A dead letter's place in the log, and the log's time there.

    Repeated writes after a crash and several builds have the same key. The time tells letters of a
    log from those of another that was made anew in its place.
    """

    shard: int
    offset: int
    row: int
    log_ms: int

    @property
    def place(self) -> str:
        """As people write it: partition/offset/row."""
        return f"{self.shard}/{self.offset}/{self.row}"

    @property
    def is_set_aside(self) -> bool:
        """Whether it is a row that ClickHouse refused, and no record of the log."""
        return self.row < 0


@dataclass(frozen=True, slots=True)
class StoredLetter:
    """A dead letter as its topic has it: the bytes that were refused, or the start of them."""

    key: LetterKey
    value: bytes
    bytes_total: int
    content_type: bytes | None

    @property
    def is_cut(self) -> bool:
        """Whether only the start of it was kept."""
        return len(self.value) < self.bytes_total


FORMAT = 1
"""Of a letter's headers; `tally-format` tells it, and is left out while it is 1."""


def read_letter(value: bytes | None, headers: Headers) -> StoredLetter | None:
    """The letter in one message of the topic; None for a message that is none.

    Raises OperatorError for a letter of a newer Tally: to pass over it would be to lose it.
    """
    last = dict(headers)
    try:
        if (found := int(last.get("tally-format") or FORMAT)) > FORMAT:
            raise OperatorError(
                f"topic tally.dead-letters has a letter of format {found}, which a newer Tally "
                f"wrote; this one reads format {FORMAT}: use that version"
            )
        key = LetterKey(
            int(last["tally-partition"]),
            int(last["tally-offset"]),
            int(last["tally-row"]),
            int(last["tally-timestamp"]),
        )
        bytes_total = int(last["tally-bytes"])
    except (KeyError, ValueError):
        return None
    return StoredLetter(key, value or b"", bytes_total, last.get(CONTENT_TYPE_HEADER))
