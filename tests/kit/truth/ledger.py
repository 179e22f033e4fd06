"""What strict counters were asked and what they answered, in a file that survives who asks.

A command is written down before it is asked, and every answer after it came, also the second one to
the same id: an answer that differs from an earlier one is to be seen.
"""

import threading
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from tests.kit.truth.lines import Lines, entries

Command = dict[str, Any]
"""counter, what (`increment`, `decrement` or `acquire`), amount, id."""


class Answer(NamedTuple):
    """What was told of a command."""

    accepted: bool
    remaining: int


class LoggedCommand(NamedTuple):
    """A command as the log has it, and when by the log's time."""

    command: dict[str, Any]
    log_ms: int


class Ledger:
    """One process's file. Opened again, it goes on where the process was killed. Thread-safe."""

    def __init__(self, path: Path) -> None:
        """Read what is there."""
        self.commands: dict[int, Command] = {}
        self.answers: dict[int, list[Answer]] = {}
        self._lock = threading.Lock()
        self._lines = Lines(path)
        for entry in entries(path):
            if "command" in entry:
                self.commands[entry["asked"]] = entry["command"]
            else:
                answer = Answer(entry["accepted"], entry["remaining"])
                self.answers.setdefault(entry["told"], []).append(answer)

    def begin(self) -> None:
        """Go on writing."""
        self._lines.begin()

    def ask(self, command: Command) -> int:
        """Write down what is about to be asked; its number, which no other has."""
        with self._lock:
            number = len(self.commands)
            while number in self.commands:
                number += 1
            self.commands[number] = command
            self._lines.write([{"asked": number, "command": command}])
            return number

    def tell(self, number: int, answer: Answer) -> None:
        """Write down an answer."""
        with self._lock:
            self.answers.setdefault(number, []).append(answer)
            self._lines.write([{"told": number, **answer._asdict()}])

    def unanswered(self) -> list[int]:
        """Of what nobody knows whether it was decided."""
        return [number for number in self.commands if number not in self.answers]

    def close(self) -> None:
        self._lines.close()


@dataclass
class Decisions:
    """What all ledgers together have."""

    commands: list[Command] = field(default_factory=list)
    answers: list[list[Answer]] = field(default_factory=list)
    """Of each command; empty where nobody ever heard."""

    @classmethod
    def of(cls, paths: Iterable[Path]) -> "Decisions":
        """What is in these ledgers."""
        found = cls()
        for path in sorted(paths):
            ledger = Ledger(path)
            ledger.close()
            for number, command in sorted(ledger.commands.items()):
                found.commands.append(command)
                found.answers.append(ledger.answers.get(number, []))
        return found
