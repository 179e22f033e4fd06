"""What was sent and what of it was acknowledged, in a file that survives the sender's death.

An increment is written down before it is sent, and its acknowledgement after it came. So whatever
kills a sender, what it may have sent is known, and what was not acknowledged is known as such.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from tests.kit.truth.lines import Lines, entries

Document = dict[str, Any]
"""An increment as JSON has it: counter, delta, at, region, and perhaps member and id."""


class Refusable(NamedTuple):
    """Something that must be refused, and words that the reason must have."""

    text: str
    why: str


class Journal:
    """One sender's file. Opened again, it goes on where the sender was killed."""

    def __init__(self, path: Path) -> None:
        """Read what is there."""
        self.sent: dict[int, Document] = {}
        self.refusable: dict[int, Refusable] = {}
        self.acknowledged: set[int] = set()
        self._lines = Lines(path)
        self._read(path)

    def begin(self) -> None:
        """Go on writing: a line that was cut in the middle must not swallow the next one."""
        self._lines.begin()

    @property
    def next_number(self) -> int:
        return max([-1, *self.sent, *self.refusable]) + 1

    def send(self, documents: Mapping[int, Document]) -> None:
        """Write down what is about to be sent, by numbers that were not used before."""
        self.sent.update(documents)
        self._lines.write({"sent": number, "event": one} for number, one in documents.items())

    def send_refusable(self, number: int, one: Refusable) -> None:
        """Write down something that must be refused: it is a dead letter, and counts nowhere."""
        self.refusable[number] = one
        self._lines.write([{"sent": number, "refusable": one.text, "why": one.why}])

    def acknowledge(self, numbers: Iterable[int]) -> None:
        """Write down that the log has them."""
        known = [number for number in numbers if number not in self.acknowledged]
        if known:
            self.acknowledged.update(known)
            self._lines.write([{"acknowledged": known}])

    def close(self) -> None:
        self._lines.close()

    def _read(self, path: Path) -> None:
        for entry in entries(path):
            if "event" in entry:
                self.sent[entry["sent"]] = entry["event"]
            elif "refusable" in entry:
                self.refusable[entry["sent"]] = Refusable(entry["refusable"], entry["why"])
            else:
                self.acknowledged.update(entry.get("acknowledged", ()))


def mark_of(document: Mapping[str, Any]) -> str | None:
    """What tells an increment from all others in the log: its id, or a member of its own."""
    if "id" in document:
        return str(document["id"])
    member = str(document.get("member", ""))
    return member if member.startswith("only-") else None


@dataclass
class Record:
    """What all senders together have written down."""

    acknowledged: list[Document] = field(default_factory=list)
    unknown: list[Document] = field(default_factory=list)
    """Nobody heard that the log has these; `in_log.py` can look whether it does."""

    refused: list[Refusable] = field(default_factory=list)
    perhaps_refused: list[Refusable] = field(default_factory=list)
    """Nobody heard that the log has these; they are refused if it does (`letters.py`)."""

    @classmethod
    def of(cls, paths: Iterable[Path]) -> "Record":
        """What is in these journals."""
        record = cls()
        for path in sorted(paths):
            journal = Journal(path)
            journal.close()
            for number, document in journal.sent.items():
                known = number in journal.acknowledged
                (record.acknowledged if known else record.unknown).append(document)
            for number, one in journal.refusable.items():
                known = number in journal.acknowledged
                (record.refused if known else record.perhaps_refused).append(one)
        return record
