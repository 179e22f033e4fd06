"""A trickle of strict commands beside a soak's load, and what each of them must be answered."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import httpx

COMMANDS_PER_ITEM = 60
ADDED = 10
ADDED_EVERY = 15
"""Of so many commands on an item one adds, and the others take one each: some find nothing left."""

AGAIN_EVERY = 10
"""Of so many commands one is asked again, with its id."""


class Command(NamedTuple):
    """What is asked of which item, by an id of its own."""

    item: str
    what: str
    fields: dict[str, Any]


def command(number: int) -> Command:
    """The one with this number. An item has COMMANDS_PER_ITEM in a row; then comes another one."""
    item, id_ = f"stock:item-{number // COMMANDS_PER_ITEM}", f"command-{number}"
    if number % ADDED_EVERY == 0:
        return Command(item, "increment", {"delta": ADDED, "id": id_})
    return Command(item, "decrement", {"id": id_})


@dataclass
class Stock:
    """What is left of each item if commands are decided one after the other. Pure."""

    left: dict[str, int] = field(default_factory=dict)

    def decide(self, asked: Command) -> dict[str, object]:
        """What must be answered."""
        before = self.left.get(asked.item, 0)
        change = asked.fields.get("delta", -1)
        is_accepted = before + change >= 0
        self.left[asked.item] = before + change if is_accepted else before
        return {
            "accepted": is_accepted,
            "remaining": self.left[asked.item],
            "id": asked.fields["id"],
        }


class Trickle:
    """Asks one command after the other, over the web API."""

    def __init__(self) -> None:
        self.stock = Stock()
        self.asked = 0
        self.wrong: list[str] = []
        self._number = 0
        self._waiting: tuple[Command, dict[str, object]] | None = None

    def ask(self, client: httpx.Client) -> None:
        """The next one. Raises HTTPError without an answer; then it stays the next, by its id."""
        if self._waiting is None:
            asked = command(self._number)
            self._waiting = asked, self.stock.decide(asked)
        asked, expected = self._waiting
        for _ in range(2 if self._number % AGAIN_EVERY == 0 else 1):
            self.asked += 1
            answer = client.post(f"/api/v1/counters/{asked.item}/{asked.what}", json=asked.fields)
            answer.raise_for_status()
            if answer.json() != expected:
                self.wrong.append(f"{asked}: {answer.json()} instead of {expected}")
        self._number += 1
        self._waiting = None
