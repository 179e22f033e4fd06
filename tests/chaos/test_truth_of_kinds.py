"""What the truth holds of sketches, members and decisions: each spoilt answer is told of."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.kit.buckets import buckets_of, width_for
from tests.kit.truth import quotas, strict
from tests.kit.truth.ledger import Answer, Command, Decisions, Ledger
from tests.kit.truth.once import decided, settle_once
from tests.kit.truth.record import Document, Record
from tests.kit.truth.sketched import (
    Estimate,
    Sketched,
    compared_estimates,
    compared_heaviest,
    estimates,
    slack,
)

NOW_MS = 1_794_000_000_000


def heart(member: str, delta: int = 1, **more: str) -> Document:
    return {"counter": "hearts:a", "member": member, "delta": delta, "at": NOW_MS, **more}


def test_a_repeat_counts_nothing_nor_does_taking_back_who_is_not_in() -> None:
    first, back, again = heart("ann"), heart("ann", -1), heart("ann", region="eu")
    logged = [heart("bob", -1), first, heart("ann"), back, heart("ann", -1), again, heart("ann")]
    assert [one for one in decided(logged) if one["delta"]] == [first, back, again]
    assert [one["delta"] for one in decided(logged)] == [0, 1, 0, -1, 0, 1, 0]


def test_an_id_that_was_there_changes_nobody_again() -> None:
    first, back = heart("ann", id="1"), heart("ann", -1, id="2")
    assert decided([first, back, first, back]) == [first, back]


def test_what_the_log_lacks_or_has_too_often_of_members_is_told() -> None:
    sent = [heart("ann", id="1"), heart("bob"), heart("cid")]
    record = Record(acknowledged=sent)
    assert settle_once(record, [*sent, sent[0]]) == []
    assert len(settle_once(record, sent[1:])) == 1
    assert len(settle_once(record, [*sent, sent[1]])) == 1
    assert len(settle_once(record, [*sent, heart("made up", id="9")])) == 1


def test_buckets_are_those_that_sketches_are_stored_in() -> None:
    # SELECT tallyBuckets('words:word-1', 136, 6) says so, too.
    assert width_for(0.02) == 136
    assert buckets_of("words:word-1", 136) == [38, 144, 380, 446, 658, 792]


def words(count: int) -> list[Document]:
    return [
        {"counter": f"words:{n}", "delta": 1 + 500 // (n + 1), "at": NOW_MS, "region": "eu"}
        for n in range(count)
    ]


def test_each_increment_is_in_one_bucket_of_each_row() -> None:
    sent = words(300)
    held = Sketched(sent).buckets("1h")
    assert sum(held.values()) == 6 * sum(one["delta"] for one in sent)
    assert {key[:2] for key in held} == {("words", "eu")}


def test_an_estimate_below_the_truth_or_other_than_the_sketch_has_is_told() -> None:
    counts = Sketched(words(300)).truths(None)["words", "*", -1]
    right = estimates("words", counts, counts)
    asked = sorted(counts)
    assert any(right[name].value > counts[name] for name in asked), "buckets are shared"
    assert list(compared_estimates("", "words", counts, asked, right)) == []
    heaviest = "words:0"
    truth = counts[heaviest]
    for answer, kind in (
        (Estimate(truth - 1, 0, truth - 1), "lost"),
        (right[heaviest]._replace(value=right[heaviest].value + 1), "estimate"),
        (right[heaviest]._replace(low=right[heaviest].low + 1), "estimate"),
    ):
        wrong = {**right, heaviest: answer}
        found = compared_estimates("", "words", counts, asked, wrong)
        assert [one.kind for one in found] == [kind]
    without = {name: one for name, one in right.items() if name != heaviest}
    found = compared_estimates("", "words", counts, asked, without)
    assert [one.kind for one in found] == ["lost"]


def test_a_ranking_without_who_certainly_leads_is_told() -> None:
    where = ("words", "*", NOW_MS // 1000)
    counts = Sketched(words(300)).truths(None)["words", "*", -1]
    by_estimate = sorted(
        ((name, one.value) for name, one in estimates("words", counts, counts).items()),
        key=lambda one: (-one[1], one[0]),
    )
    top = by_estimate[:10]
    assert counts["words:0"] > top[-1][1] + slack("words", counts)
    assert list(compared_heaviest("", where, counts, top, 10)) == []
    for wrong in (
        by_estimate[1:11],
        top[::-1],
        [("words:0", counts["words:0"] * 3), *top[1:]],
        [("words:nobody", 2000), *top[:9]],
        [top[0], *top[:9]],
    ):
        found = list(compared_heaviest("", where, counts, wrong, 10))
        assert {one.kind for one in found} == {"ranking"}


def command(number: int, what: str, amount: int) -> Command:
    return {"counter": "stock:a", "what": what, "amount": amount, "id": f"id-{number}"}


def sale() -> Decisions:
    """5 come in, 2 are sold, 4 are not there, 3 are sold; one answer was heard twice."""
    asked = [("increment", 5), ("decrement", 2), ("decrement", 4), ("decrement", 3)]
    return Decisions(
        [command(number, *one) for number, one in enumerate(asked)],
        [
            [Answer(True, 5)],
            [Answer(True, 3), Answer(True, 3)],
            [Answer(False, 3)],
            [Answer(True, 0)],
        ],
    )


def test_decisions_that_follow_from_each_other_are_true_in_any_order() -> None:
    one = sale()
    assert list(strict.differences(one)) == []
    other = Decisions(one.commands[::-1], one.answers[::-1])
    assert list(strict.differences(other)) == []
    assert strict.totals(one) == strict.totals(other) == {("stock:a",): 0}


SPOILS: dict[str, Callable[[list[list[Answer]]], None]] = {
    "nobody knows": lambda told: told[1].clear(),
    "answered otherwise": lambda told: told[1].append(Answer(False, 3)),
    "no way from 0": lambda told: told.__setitem__(3, [Answer(True, 1)]),
    "oversold": lambda told: told.__setitem__(3, [Answer(True, -1)]),
    "refused though there was enough": lambda told: told.__setitem__(2, [Answer(False, 5)]),
}


@pytest.mark.parametrize("told", SPOILS)
def test_a_decision_that_cannot_be_true_is_told(told: str) -> None:
    one = sale()
    SPOILS[told](one.answers)
    found = list(strict.differences(one))
    assert {each.kind for each in found} == {"decision"}
    assert any(told in each.where for each in found)


def test_a_decision_that_was_forgotten_or_taken_twice_leaves_no_way() -> None:
    one = sale()
    # Two sold from the same 5: as if the first sale had been forgotten.
    twice = replace(
        one,
        commands=[*one.commands, command(9, "decrement", 2)],
        answers=[*one.answers, [Answer(True, 3)]],
    )
    assert any("no way from 0" in each.where for each in strict.differences(twice))


def test_a_ledger_goes_on_after_a_kill_in_the_middle_of_a_line(tmp_path: Path) -> None:
    path = tmp_path / "ledger"
    ledger = Ledger(path)
    numbers = [ledger.ask(command(n, "decrement", 1)) for n in range(2)]
    ledger.tell(numbers[0], Answer(True, 4))
    ledger.close()
    with path.open("a") as file:
        file.write('{"asked": 2, "comm')
    again = Ledger(path)
    again.begin()
    assert again.unanswered() == [numbers[1]]
    assert again.ask(command(7, "decrement", 1)) not in numbers
    again.close()
    assert [len(answers) for answers in Decisions.of([path]).answers] == [1, 0, 0]


def asked(window: str, *calls: tuple[int, int, Answer]) -> tuple[Decisions, list[quotas.Logged]]:
    """Calls of a quota of 5 in a second, by their times in ms, amounts and answers."""
    commands = [
        {"counter": "rate:a", "what": "acquire", "amount": amount, "id": f"id-{number}"}
        for number, (_, amount, _) in enumerate(calls)
    ]
    more = {"op": "acquire", "limit": 5, "window": window, "window_ms": 1000}
    logged = [
        quotas.Logged({**command, **more}, NOW_MS + call[0])
        for command, call in zip(commands, calls, strict=True)
    ]
    return Decisions(commands, [[answer] for *_, answer in calls]), logged


QUOTAS = {
    # The log's time goes back once: the greatest one holds.
    "fixed": [
        (0, 3, Answer(True, 2)),
        (900, 3, Answer(False, 2)),
        (700, 2, Answer(True, 0)),
        (1000, 5, Answer(True, 0)),
        (990, 1, Answer(False, 0)),
    ],
    "sliding": [
        (0, 3, Answer(True, 2)),
        (999, 3, Answer(False, 2)),
        (999, 2, Answer(True, 0)),
        (1002, 3, Answer(True, 0)),
        (1990, 1, Answer(False, 0)),
    ],
}


@pytest.mark.parametrize("window", QUOTAS)
def test_answers_of_a_quota_follow_from_the_log(window: str) -> None:
    calls = QUOTAS[window]
    decisions, logged = asked(window, *calls)
    assert list(quotas.differences(decisions, [*logged, *logged])) == [], "a repeat decides nothing"
    for number, (at, amount, answer) in enumerate(calls):
        for wrong in (
            Answer(not answer.accepted, answer.remaining),
            Answer(answer.accepted, answer.remaining + 1),
        ):
            spoilt = [*calls[:number], (at, amount, wrong), *calls[number + 1 :]]
            found = list(quotas.differences(*asked(window, *spoilt)))
            assert ("rate:a", f"id-{number}") in {one.key for one in found}
    unknown = list(quotas.differences(decisions, logged[1:]))
    assert any("no such command" in one.where for one in unknown)


def test_a_sliding_window_may_count_a_step_longer_and_no_more() -> None:
    for at, remaining in ((999, (0,)), (1000, (0, 1, 2, 3)), (1001, (3,))):
        for told in range(6):
            calls = [(0, 3, Answer(True, 2)), (999, 2, Answer(True, 0))]
            last = (at, 6, Answer(False, told))
            found = list(quotas.differences(*asked("sliding", *calls, last)))
            assert (not found) == (told in remaining), (at, told)
