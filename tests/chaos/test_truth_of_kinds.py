"""What the truth holds of sketches, members and decisions: each spoilt answer is told of."""

import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.kit.buckets import buckets_of, width_for
from tests.kit.truth import quotas, strict
from tests.kit.truth.differences import compared
from tests.kit.truth.in_log import in_their_partitions
from tests.kit.truth.ledger import Answer, Command, Decisions, Ledger, LoggedCommand
from tests.kit.truth.once import decided, settle_once
from tests.kit.truth.record import Document, Record
from tests.kit.truth.sketched import (
    Estimate,
    LoggedRow,
    Sketched,
    compared_estimates,
    compared_heaviest,
    estimates,
    placed,
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


def at_log_time(log_ms: int, *ats_ms: int, **more: str) -> list[LoggedRow]:
    one = {"counter": "words:a", "delta": 1, "region": "eu", **more}
    return [LoggedRow({**one, "at": at_ms}, log_ms) for at_ms in ats_ms]


MINUTE_MS, HOUR_MS, DAY_MS = 60_000, 3_600_000, 86_400_000


@pytest.mark.parametrize(
    ("ago_ms", "grain_ms"),
    [
        (-5 * MINUTE_MS, MINUTE_MS),
        (0, MINUTE_MS),
        (10 * MINUTE_MS, MINUTE_MS),
        (10 * MINUTE_MS + 1, HOUR_MS),
        (48 * HOUR_MS, HOUR_MS),
        (48 * HOUR_MS + 1, DAY_MS),
    ],
)
def test_what_comes_late_by_the_logs_time_is_in_the_first_minute_of_its_hour_or_day(
    ago_ms: int, grain_ms: int
) -> None:
    slot_ms = NOW_MS - NOW_MS % MINUTE_MS
    at_ms = slot_ms - ago_ms
    for log_ms in (slot_ms, slot_ms + MINUTE_MS - 1):
        [row] = at_log_time(log_ms, at_ms)
        assert placed(row)["at"] == at_ms // grain_ms * grain_ms


def test_minutes_of_buckets_are_those_of_the_log_and_each_that_is_elsewhere_is_told() -> None:
    slot_ms = NOW_MS - NOW_MS % MINUTE_MS
    half_past_ms = slot_ms - slot_ms % HOUR_MS - HOUR_MS + 30 * MINUTE_MS
    rows = at_log_time(slot_ms, slot_ms, half_past_ms)
    sketched = Sketched([row.document for row in rows], rows)
    held = sketched.buckets("1m")
    starts = {slot_ms // 1000, (half_past_ms - 30 * MINUTE_MS) // 1000}
    assert {key[2] for key in held} == starts
    assert sum(held.values()) == sum(sketched.buckets("1h").values()) == 2 * 6
    moved = {
        (*key[:2], half_past_ms // 1000 if key[2] == min(starts) else key[2], key[3]): count
        for key, count in held.items()
    }
    assert len(compared("", held, moved)) == 2 * 6
    assert {one.kind for one in compared("", held, moved)} == {"misplaced"}


def test_an_id_that_comes_again_later_is_in_the_minute_of_the_first() -> None:
    first, again = (
        at_log_time(NOW_MS, NOW_MS, id="1"),
        at_log_time(NOW_MS + HOUR_MS, NOW_MS, id="1"),
    )
    held = Sketched([first[0].document], [*first, *again]).buckets("1m")
    assert {key[2] for key in held} == {NOW_MS // MINUTE_MS * 60}
    assert set(held.values()) == {1}


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
        [*top[:9], (top[9][0], 0)],
    ):
        found = list(compared_heaviest("", where, counts, wrong, 10))
        assert {one.kind for one in found} == {"ranking"}


def test_who_has_nothing_is_listed_only_where_its_buckets_are_shared() -> None:
    where, counts = ("words", "*", NOW_MS // 1000), {"words:0": 5, "words:1": 3}
    listed = [("words:0", 5), ("words:1", 3), ("words:2", 1)]
    assert list(compared_heaviest("", where, counts, listed[:2], 10)) == []
    for known in (counts, {**counts, "words:2": 0}):
        [found] = compared_heaviest("", where, known, listed, 10)
        assert found.key[-1] == "words:2"
    everything = Sketched(words(300)).truths(None)["words", "*", -1]
    estimated = estimates("words", everything, ["words:none"])["words:none"].value
    assert estimated > 0, "others share all of its buckets"
    right = sorted(estimates("words", everything, everything).items(), key=lambda one: -one[1][0])
    top = [(name, one.value) for name, one in right]
    shared = sorted([*top, ("words:none", estimated)], key=lambda one: -one[1])
    known = {**everything, "words:none": 0}
    assert list(compared_heaviest("", where, known, shared, 1000)) == []
    assert list(compared_heaviest("", where, everything, shared, 1000)) != []


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


def logged(decisions: Decisions) -> list[LoggedCommand]:
    """The same commands, as the log has them."""
    return [
        LoggedCommand({**one, "op": one["what"]}, NOW_MS + number)
        for number, one in enumerate(decisions.commands)
    ]


def test_decisions_that_follow_from_the_log_are_true_whoever_heard_of_them_first() -> None:
    one = sale()
    commands = logged(one)
    assert list(strict.differences(one, commands)) == []
    other = Decisions(one.commands[::-1], one.answers[::-1])
    assert list(strict.differences(other, commands)) == []
    assert strict.totals(one) == strict.totals(other) == {("stock:a",): 0}
    assert list(strict.differences(one, [*commands, *commands])) == [], "a repeat decides nothing"


SPOILS: dict[str, Callable[[list[list[Answer]]], None]] = {
    "nobody knows": lambda told: told[1].clear(),
    "answered otherwise": lambda told: told[1].append(Answer(False, 3)),
}


@pytest.mark.parametrize("told", SPOILS)
def test_a_decision_that_nobody_knows_or_that_has_two_answers_is_told(told: str) -> None:
    one = sale()
    SPOILS[told](one.answers)
    found = list(strict.differences(one, logged(sale())))
    assert {each.kind for each in found} == {"decision"}
    assert any(told in each.where for each in found)


@pytest.mark.parametrize("number", range(4))
def test_any_other_answer_than_the_one_by_the_log_is_told(number: int) -> None:
    [right, *_] = sale().answers[number]
    for wrong in (
        Answer(not right.accepted, right.remaining),
        Answer(right.accepted, right.remaining + 1),
        Answer(right.accepted, right.remaining - 1),
    ):
        one = sale()
        one.answers[number] = [wrong]
        found = list(strict.differences(one, logged(sale())))
        assert [(each.where, each.key) for each in found] == [
            ("strict decisions: not by the log", ("stock:a", f"id-{number}"))
        ]


def sold(*asked: tuple[str, int, Answer]) -> Decisions:
    return Decisions(
        [command(number, *one[:2]) for number, one in enumerate(asked)],
        [[answer] for *_, answer in asked],
    )


def test_values_that_are_each_reached_and_left_but_on_no_one_way_are_told() -> None:
    one = sold(
        ("increment", 5, Answer(True, 5)),
        ("increment", 2, Answer(True, 9)),
        ("decrement", 2, Answer(True, 7)),
    )
    found = list(strict.differences(one, logged(one)))
    assert [each.key[1] for each in found] == ["id-1", "id-2"]


def test_a_decision_that_was_forgotten_taken_twice_or_in_another_order_is_told() -> None:
    forgotten = sold(
        ("increment", 5, Answer(True, 5)),
        ("decrement", 2, Answer(True, 3)),
        ("decrement", 2, Answer(True, 3)),
    )
    assert [one.key[1] for one in strict.differences(forgotten, logged(forgotten))] == ["id-2"]
    right = sale()
    commands = logged(right)
    found = strict.differences(right, [commands[1], commands[0], *commands[2:]])
    assert {one.key[1] for one in found} == {"id-1", "id-2", "id-3"}, "sold before it came in"


def test_what_the_log_lacks_or_has_and_nobody_asked_is_told() -> None:
    one = sale()
    commands = logged(one)
    [found] = strict.differences(one, commands[:3])
    assert "the log has no such command" in found.where
    strange = LoggedCommand({**command(9, "decrement", 1), "op": "decrement"}, NOW_MS + 9)
    [found] = strict.differences(one, [*commands, strange])
    assert "the log has what nobody asked" in found.where
    assert found.key == ("stock:a", "id-9")
    for other in ({"amount": 7}, {"op": "increment"}):
        changed = commands[2]._replace(command={**commands[2].command, **other})
        wheres = [
            one.where for one in strict.differences(one, [*commands[:2], changed, commands[3]])
        ]
        assert any("the log has what nobody asked" in where for where in wheres)


def test_a_floor_is_what_cannot_be_taken() -> None:
    right = sold(("increment", 5, Answer(True, 5)), ("decrement", 3, Answer(False, 1)))
    commands = [one._replace(command={**one.command, "floor": 4}) for one in logged(right)]
    assert list(strict.differences(right, commands)) == []
    assert [one.key[1] for one in strict.differences(right, logged(right))] == ["id-1"]


@pytest.mark.parametrize("kept", [{"ids_kept": 2}, {"ids_horizon_ms": 2}])
def test_an_id_is_remembered_as_long_as_its_commands_say(kept: dict[str, int]) -> None:
    # The first comes again after two others: it is known to who remembers more than two.
    first, second, third = (
        LoggedCommand({**command(number, "increment", 1), "op": "increment"}, NOW_MS + number)
        for number in range(3)
    )
    last = LoggedCommand({**command(7, "increment", 1), "op": "increment"}, NOW_MS + 7)
    commands = [first, second, third, first._replace(log_ms=NOW_MS + 3), last]
    remembered = strict.decided(commands)
    assert remembered["stock:a", "id-7"] == Answer(True, 4)
    forgotten = strict.decided(one._replace(command={**one.command, **kept}) for one in commands)
    assert forgotten["stock:a", "id-7"] == Answer(True, 5)
    assert forgotten["stock:a", "id-0"] == Answer(True, 1)


def test_a_command_in_another_partition_than_its_counters_is_none() -> None:
    one = LoggedCommand({"counter": "stock:a"}, NOW_MS)
    at = zlib.crc32(b"stock:a") % 3
    for number in range(3):
        commands = [[one] if number == here else [] for here in range(3)]
        assert in_their_partitions(commands) == ([one] if number == at else [])


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


def asked(window: str, *calls: tuple[int, int, Answer]) -> tuple[Decisions, list[LoggedCommand]]:
    """Calls of a quota of 5 in a second, by their times in ms, amounts and answers."""
    commands = [
        {"counter": "rate:a", "what": "acquire", "amount": amount, "id": f"id-{number}"}
        for number, (_, amount, _) in enumerate(calls)
    ]
    more = {"op": "acquire", "limit": 5, "window": window, "window_ms": 1000}
    logged = [
        LoggedCommand({**command, **more}, NOW_MS + call[0])
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
    decisions, commands = asked(window, *calls)
    assert list(quotas.differences(decisions, [*commands, *commands])) == [], (
        "a repeat decides nothing"
    )
    for number, (at, amount, answer) in enumerate(calls):
        for wrong in (
            Answer(not answer.accepted, answer.remaining),
            Answer(answer.accepted, answer.remaining + 1),
        ):
            spoilt = [*calls[:number], (at, amount, wrong), *calls[number + 1 :]]
            found = list(quotas.differences(*asked(window, *spoilt)))
            assert ("rate:a", f"id-{number}") in {one.key for one in found}
    unknown = list(quotas.differences(decisions, commands[1:]))
    assert any("no such command" in one.where for one in unknown)


def test_a_sliding_window_may_count_a_step_longer_and_no_more() -> None:
    for at, remaining in ((999, (0,)), (1000, (0, 1, 2, 3)), (1001, (3,))):
        for told in range(6):
            calls = [(0, 3, Answer(True, 2)), (999, 2, Answer(True, 0))]
            last = (at, 6, Answer(False, told))
            found = list(quotas.differences(*asked("sliding", *calls, last)))
            assert (not found) == (told in remaining), (at, told)
