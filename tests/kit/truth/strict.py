"""Whether what strict counters answered can be true, by the answers alone. Pure.

Decisions of a counter come one after the other, and an accepted one tells the value after it. So
each goes from one value to another, and all of them must be one way from 0 to the last value: then
nothing was forgotten, decided twice, or sold that was not there, in whatever order they came.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator

from tests.kit.truth.differences import Difference
from tests.kit.truth.ledger import Answer, Command, Decisions

WHERE = "strict decisions"


def totals(decisions: Decisions) -> dict[tuple[str, ...], int]:
    """What each counter must have in the end: all that was accepted."""
    sums: dict[tuple[str, ...], int] = defaultdict(int)
    for command, answers in zip(decisions.commands, decisions.answers, strict=True):
        sums[command["counter"],] += _change(command) if answers and answers[0].accepted else 0
    return dict(sums)


def differences(decisions: Decisions) -> Iterator[Difference]:
    """All that cannot be true."""
    steps: dict[str, list[tuple[int, int]]] = defaultdict(list)
    refused: list[tuple[Command, Answer]] = []
    for command, answers in zip(decisions.commands, decisions.answers, strict=True):
        key = (command["counter"], command["id"])
        if not answers:
            yield Difference("decision", f"{WHERE}: nobody knows of it", key, "an answer", None)
            continue
        first = answers[0]
        if any(answer != first for answer in answers):
            where = f"{WHERE}: the same id was answered otherwise"
            yield Difference("decision", where, key, first, answers)
        if command["what"] == "acquire":
            continue  # tests/kit/truth/quotas.py
        if first.accepted:
            steps[command["counter"]].append((first.remaining - _change(command), first.remaining))
        else:
            refused.append((command, first))
    for counter, taken in sorted(steps.items()):
        yield from _of_way(counter, taken)
    for command, answer in refused:
        yield from _of_refusal(command, answer, steps[command["counter"]])


def _change(command: Command) -> int:
    amount: int = command["amount"]
    return -amount if command["what"] == "decrement" else amount


def _of_way(counter: str, steps: list[tuple[int, int]]) -> Iterator[Difference]:
    for before, after in steps:
        if before < 0 or after < 0:
            where = f"{WHERE}: oversold"
            yield Difference("decision", where, (counter,), "not below 0", (before, after))
    left, reached = Counter(before for before, _ in steps), Counter(after for _, after in steps)
    reached[0] += 1
    left[sum(after - before for before, after in steps)] += 1
    for value in sorted({*left, *reached}):
        if left[value] != reached[value]:
            where = f"{WHERE}: no way from 0 to the end"
            found = f"left {left[value]} times"
            yield Difference(
                "decision", where, (counter, value), f"reached {reached[value]} times", found
            )


def _of_refusal(
    command: Command, answer: Answer, steps: list[tuple[int, int]]
) -> Iterator[Difference]:
    had = {0, *(after for _, after in steps)}
    is_right = command["what"] == "decrement" and 0 <= answer.remaining < command["amount"]
    if not is_right or answer.remaining not in had:
        where, key = (
            f"{WHERE}: refused though there was enough",
            (command["counter"], command["id"]),
        )
        yield Difference("decision", where, key, f"less than {command['amount']}", answer)
