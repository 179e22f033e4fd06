"""A strict counter: what is remembered, for how long, and what is never decided twice."""

from typing import Any

import pytest

from pipeline.errors import BadInputError, OperatorError
from pipeline.strict.changelog import counter_of, read_state, record_key, record_value
from pipeline.strict.state import VALUE_MAX, CounterState, Decision
from pipeline.strict.windows import STEPS, WindowOf
from schemas.rules import STRICT_IDS_MIN
from schemas.strict import Command, check_command, read_command


def command(op: str = "increment", id_: str = "a", **fields: Any) -> Command:
    return check_command({"id": id_, "counter": "stock:one", "op": op, **fields})


def decide(state: CounterState, one: Command, offset: int, at_ms: int = 0) -> Decision:
    decided = state.decide(one, offset, at_ms)
    assert decided is not None
    return decided.decision


def test_a_record_that_was_counted_is_not_decided_again() -> None:
    state = CounterState()
    assert decide(state, command(), 5) == (True, 1)
    assert state.decide(command(id_="b"), 5, 0) is None
    assert state.decide(command(id_="c"), 4, 0) is None
    assert (state.value, state.through) == (1, 5)


def test_a_refusal_stands_even_when_there_is_enough_by_then() -> None:
    state = CounterState()
    assert decide(state, command("decrement", "buy"), 0) == (False, 0)
    decide(state, command("increment", "restock", amount=10), 1)
    assert decide(state, command("decrement", "buy"), 2) == (False, 0)
    assert decide(state, command("decrement", "buy again"), 3) == (True, 9)


def test_an_id_keeps_its_first_answer_whatever_is_asked_with_it() -> None:
    state = CounterState()
    assert decide(state, command("increment", "a", amount=10), 0) == (True, 10)
    assert decide(state, command("decrement", "a", amount=3), 1) == (True, 10)
    assert state.value == 10


def test_the_last_ids_are_remembered_and_no_more() -> None:
    state = CounterState()
    for number in range(STRICT_IDS_MIN + 1):
        decide(state, command(id_=str(number), ids_kept=STRICT_IDS_MIN), number)
    assert len(state.ids) == STRICT_IDS_MIN
    assert decide(state, command(id_="1"), STRICT_IDS_MIN + 1) == (True, 2)
    assert decide(state, command(id_="0"), STRICT_IDS_MIN + 2) == (True, STRICT_IDS_MIN + 2)


def test_a_value_cannot_grow_beyond_what_is_stored_exactly() -> None:
    state = CounterState(value=VALUE_MAX - 1)
    assert decide(state, command(amount=2), 0) == (False, VALUE_MAX - 1)
    assert decide(state, command(id_="b"), 1) == (True, VALUE_MAX)


def test_windows_of_other_lengths_have_limits_of_their_own_and_are_bounded() -> None:
    state = CounterState()
    for number, window_ms in enumerate([10, 20, 30, 40]):
        one = command("acquire", str(number), limit=1, window_ms=window_ms)
        assert decide(state, one, number) == (True, 0)
    assert decide(state, command("acquire", "more", limit=1, window_ms=50), 5) == (False, 0)
    later = command("acquire", "later", limit=1, window_ms=50)
    assert decide(state, later, 6, at_ms=10) == (True, 0)


@pytest.mark.parametrize("length_ms", [1, 999, 1_000, 1_001, 1_999, 60_000, 86_400_000])
def test_a_sliding_window_has_about_a_thousand_steps_at_most(length_ms: int) -> None:
    of = WindowOf(True, length_ms)
    now_ms = 7 * length_ms + 3
    assert of.step_ms >= 1
    assert of.step_of(now_ms) - of.first_live(now_ms) + 1 <= STEPS + 2


def test_a_state_reads_back_as_it_was_written() -> None:
    state = CounterState()
    decide(state, command("acquire", "a", limit=5, window_ms=1_000, window="sliding"), 0, 17)
    decide(state, command("decrement", "b", floor=-3, amount=2), 1, 15)
    decide(state, command("decrement", "c", floor=-3, amount=20), 2, 19)
    assert read_state(record_value(state)) == state


def test_keys_tell_their_counter_and_what_is_foreign_is_refused() -> None:
    assert counter_of(record_key("stock:é", b"writer")) == "stock:é"
    for foreign in (b"", b"nonsense", b"\x93\x02\xa1a\xc4\x00"):
        with pytest.raises(OperatorError, match="does not know"):
            counter_of(foreign)
    with pytest.raises(OperatorError, match="does not know"):
        read_state(b"\x91\x07")


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"id": None}, "id: missing"),
        ({"id": ""}, "id: empty"),
        ({"id": "x" * 129}, "id: longer than 128 bytes"),
        ({"counter": "stock"}, "counter: has no family; write family:key"),
        ({"op": "steal"}, "op: not one of increment, decrement, acquire"),
        ({"op": ["increment"]}, "op: not one of increment, decrement, acquire"),
        ({"amount": 0}, f"amount: not from 1 to {2**40}"),
        ({"amount": 1.5}, "amount: not a whole number"),
        ({"amount": True}, "amount: not a whole number"),
        ({"op": "acquire", "limit": 3}, "acquire needs limit and window_ms"),
        ({"window": "hopping"}, "window: not one of fixed, sliding"),
        ({"ids_kept": 10}, "ids_kept: not from 1000 to 20000"),
    ],
)
def test_what_is_no_command_is_refused_with_a_reason(fields: dict[str, Any], reason: str) -> None:
    with pytest.raises(BadInputError) as refused:
        check_command({"id": "a", "counter": "stock:one", "op": "increment", **fields})
    assert str(refused.value) == reason


def test_a_command_reads_back_from_its_record() -> None:
    for one in (
        command(amount=3),
        command("decrement", floor=-2),
        command("acquire", limit=5, window_ms=10, window="sliding"),
    ):
        assert read_command(one.record()) == one
    with pytest.raises(BadInputError, match="empty"):
        read_command(None)
