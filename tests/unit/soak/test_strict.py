"""The trickle of strict commands: what a soak expects to be answered."""

from collections import Counter

import httpx

from benchmarks._soak_strict import AGAIN_EVERY, COMMANDS_PER_ITEM, Stock, Trickle, command


def test_items_come_and_go_and_some_commands_find_nothing_left() -> None:
    asked = [command(number) for number in range(10 * COMMANDS_PER_ITEM)]
    assert set(Counter(one.item for one in asked).values()) == {COMMANDS_PER_ITEM}
    assert len({one.fields["id"] for one in asked}) == len(asked)
    stock = Stock()
    accepted = Counter(stock.decide(one)["accepted"] for one in asked)
    assert accepted == {True: 440, False: 160}
    assert set(stock.left.values()) == {0}


class Decider:
    """Answers as a strict counter does, but for what it is told to do otherwise."""

    def __init__(self, *, oversells: bool = False, refuses_at: int = -1) -> None:
        self._oversells = oversells
        self._refuses_at = refuses_at
        self._value = 0
        self._answers: dict[str, dict[str, object]] = {}
        self._asked = 0

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self._asked += 1
        if self._asked == self._refuses_at:
            return httpx.Response(504)
        fields = httpx.Response(200, content=request.content).json()
        if fields["id"] not in self._answers:
            change = fields.get("delta", -1)
            accepted = self._oversells or self._value + change >= 0
            self._value += change if accepted else 0
            answer = {"accepted": accepted, "remaining": self._value, "id": fields["id"]}
            self._answers[fields["id"]] = answer
        return httpx.Response(200, json=self._answers[fields["id"]])


def trickled(decider: Decider, commands: int) -> tuple[Trickle, int]:
    trickle, failed = Trickle(), 0
    with httpx.Client(transport=httpx.MockTransport(decider), base_url="http://web") as client:
        for _ in range(commands):
            try:
                trickle.ask(client)
            except httpx.HTTPStatusError:
                failed += 1
    return trickle, failed


def test_right_answers_are_taken_and_repeats_are_asked_as_well() -> None:
    trickle, failed = trickled(Decider(), 50)
    assert (trickle.wrong, failed, trickle.asked) == ([], 0, 50 + 50 // AGAIN_EVERY)
    assert trickle.stock.left == {"stock:item-0": 6}


def test_one_that_is_oversold_is_told() -> None:
    trickle, _ = trickled(Decider(oversells=True), 40)
    assert "instead of" in trickle.wrong[0]


def test_a_command_without_an_answer_is_asked_again_and_decided_once() -> None:
    trickle, failed = trickled(Decider(refuses_at=3), 20)
    assert (trickle.wrong, failed) == ([], 1)
