"""What strict counters must have answered, by the log alone: its commands in order. Pure.

A decision follows from the counter's records before it (docs/strict.md). So the commands are
decided here once more, in the plainest way, and every answer must be the same to the unit, refusals
too: then nothing was forgotten, decided twice, or sold that was not there.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from tests.kit.truth.differences import Difference
from tests.kit.truth.ledger import Answer, Command, Decisions, LoggedCommand

WHERE = "strict decisions"
IDS_KEPT = 1_000
IDS_HORIZON_MS = 86_400_000
"""How many ids a counter remembers, and for how long, where a command does not say."""

Key = tuple[str, str]
"""Counter and id."""


def totals(decisions: Decisions) -> dict[tuple[str, ...], int]:
    """What each counter must have in the end: all that was accepted."""
    sums: dict[tuple[str, ...], int] = defaultdict(int)
    for command, answers in zip(decisions.commands, decisions.answers, strict=True):
        sums[command["counter"],] += _change(command) if answers and answers[0].accepted else 0
    return dict(sums)


def differences(decisions: Decisions, logged: Iterable[LoggedCommand]) -> Iterator[Difference]:
    """All answers that the log does not bear out, and all that it has and nobody asked."""
    commands = list(logged)
    asked = {_key(command): command for command in decisions.commands}
    for command, answers in zip(decisions.commands, decisions.answers, strict=True):
        yield from _of_answers(command, answers)
    for one, _ in commands:
        known = asked.get(_key(one))
        if known is None or _asked(one) != (known["what"], known["amount"]):
            where = f"{WHERE}: the log has what nobody asked"
            yield Difference("decision", where, _key(one), known, one)
    told = {
        _key(command): answers[0]
        for command, answers in zip(decisions.commands, decisions.answers, strict=True)
        if answers and command["what"] != "acquire"  # tests/kit/truth/quotas.py
    }
    must = decided(commands)
    for key in sorted(told):
        if key not in must:
            where = f"{WHERE}: the log has no such command"
            yield Difference("decision", where, key, None, told[key])
        elif told[key] != must[key]:
            yield Difference("decision", f"{WHERE}: not by the log", key, must[key], told[key])


def decided(logged: Iterable[LoggedCommand]) -> dict[Key, Answer]:
    """The first answer to each id of each counter, of stocks: whose commands are not acquired."""
    counters: dict[str, Stock] = defaultdict(Stock)
    found: dict[Key, Answer] = {}
    for command, log_ms in logged:
        if command["op"] != "acquire":
            answer = counters[command["counter"]].decide(command, log_ms)
            found.setdefault(_key(command), answer)
    return found


@dataclass
class Stock:
    """A counter that is added to and taken from, and its ids with their answers and times, the
    oldest first."""

    value: int = 0
    log_ms: int = 0
    ids: dict[str, tuple[Answer, int]] = field(default_factory=dict)

    def decide(self, command: Command, log_ms: int) -> Answer:
        """The answer to the next command. An id that is remembered has its answer already."""
        self.log_ms = max(self.log_ms, log_ms)
        horizon_ms = command.get("ids_horizon_ms", IDS_HORIZON_MS)
        while self.ids and self.log_ms - self.ids[self._oldest()][1] > horizon_ms:
            del self.ids[self._oldest()]
        if command["id"] not in self.ids:
            self.ids[command["id"]] = self._answer(command), self.log_ms
        answer, _ = self.ids[command["id"]]
        while len(self.ids) > command.get("ids_kept", IDS_KEPT):
            del self.ids[self._oldest()]
        return answer

    def _oldest(self) -> str:
        return next(iter(self.ids))

    def _answer(self, command: Command) -> Answer:
        amount = command.get("amount", 1)
        if command["op"] == "increment":
            self.value += amount
            return Answer(True, self.value)
        floor = command.get("floor", 0)
        has_enough = self.value - amount >= floor
        if has_enough:
            self.value -= amount
        return Answer(has_enough, max(0, self.value - floor))


def _of_answers(command: Command, answers: list[Answer]) -> Iterator[Difference]:
    if not answers:
        where = f"{WHERE}: nobody knows of it"
        yield Difference("decision", where, _key(command), "an answer", None)
    elif any(answer != answers[0] for answer in answers):
        where = f"{WHERE}: the same id was answered otherwise"
        yield Difference("decision", where, _key(command), answers[0], answers)


def _key(command: Command) -> Key:
    return command["counter"], command["id"]


def _asked(logged: Command) -> tuple[str, int]:
    return logged["op"], logged.get("amount", 1)


def _change(command: Command) -> int:
    amount: int = command["amount"]
    return -amount if command["what"] == "decrement" else amount
