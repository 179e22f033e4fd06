"""What quotas must have answered, by the log alone: its commands in order, with its times. Pure.

Of fixed windows every answer follows. Sliding ones are kept in steps of a thousandth of the window,
and what was granted in a step counts until the whole step is over (docs/strict.md): so each answer
is held to what was granted within the window, and within the window and a step.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from tests.kit.truth.differences import Difference
from tests.kit.truth.ledger import Answer, Decisions, LoggedCommand

WHERE = "quota decisions"
STEPS = 1000


class Bounds(NamedTuple):
    """How much was granted before a command, at least and at most, and what it asked for."""

    least: int
    most: int
    amount: int
    limit: int


def differences(decisions: Decisions, logged: Iterable[LoggedCommand]) -> Iterator[Difference]:
    """Answers to acquire that the log's order and times do not bear out."""
    told = {
        (command["counter"], command["id"]): answers[0]
        for command, answers in zip(decisions.commands, decisions.answers, strict=True)
        if answers and command["what"] == "acquire"
    }
    must = bounds(logged, told)
    for key in sorted(told.keys() - must.keys()):
        yield Difference("decision", f"{WHERE}: the log has no such command", key, None, told[key])
    for key in sorted(told.keys() & must.keys()):
        if not _is_right(must[key], told[key]):
            yield Difference("decision", f"{WHERE}: not by the log", key, must[key], told[key])


def bounds(
    logged: Iterable[LoggedCommand], told: dict[tuple[str, str], Answer]
) -> dict[tuple[str, str], Bounds]:
    """Of every acquire, by counter and id; what was accepted is taken from what was told of it."""
    found: dict[tuple[str, str], Bounds] = {}
    granted: dict[str, list[tuple[int, int]]] = defaultdict(list)
    now_ms: dict[str, int] = defaultdict(int)
    for command, log_ms in logged:
        counter = command["counter"]
        now_ms[counter] = max(now_ms[counter], log_ms)
        key = (counter, command["id"])
        if command["op"] != "acquire" or key in found:
            continue
        since_ms, at_least_since_ms = _since(command, now_ms[counter])
        amount = command.get("amount", 1)
        found[key] = Bounds(
            sum(one for at_ms, one in granted[counter] if at_ms >= since_ms),
            sum(one for at_ms, one in granted[counter] if at_ms >= at_least_since_ms),
            amount,
            command["limit"],
        )
        if key in told and told[key].accepted:
            granted[counter].append((now_ms[counter], amount))
    return found


def _since(command: dict[str, Any], now_ms: int) -> tuple[int, int]:
    """From when on what was granted counts for certain, and from when on perhaps."""
    window_ms = command["window_ms"]
    if command.get("window", "fixed") == "fixed":
        return (now_ms // window_ms * window_ms,) * 2
    return now_ms - window_ms + 1, now_ms - window_ms + 1 - max(1, -(-window_ms // STEPS))


def _is_right(must: Bounds, answer: Answer) -> bool:
    taken = must.amount if answer.accepted else 0
    used = must.limit - answer.remaining
    if answer.accepted != (used - taken + must.amount <= must.limit):
        return False
    return must.least <= used - taken <= must.most
