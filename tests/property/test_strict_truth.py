"""Strict counters against truths by brute force, which know nothing of how states are kept."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from pipeline.strict.changelog import read_state, record_value, told
from pipeline.strict.state import CounterState, id_digest
from schemas.strict import check_command

Fields = dict[str, Any]


@dataclass(frozen=True)
class Sent:
    """One command at its place in the log."""

    fields: Fields
    timestamp_ms: int


def answers(sent: list[Sent]) -> list[tuple[bool, int]]:
    """What the state decides, one after the other; it is written and read back in between."""
    state, found = CounterState(), []
    for offset, one in enumerate(sent):
        decided = state.decide(check_command(one.fields), offset, one.timestamp_ms)
        assert decided is not None
        found.append((decided.decision.accepted, decided.decision.remaining))
        stored = record_value(state)
        assert told(stored).answer(id_digest(one.fields["id"])) == decided.decision
        state = read_state(stored)
        assert record_value(state) == stored
    return found


def command(op: str, id_: int, **fields: Any) -> Fields:
    return {"id": f"id-{id_}", "counter": "stock:one", "op": op, **fields}


stock_commands = st.builds(
    lambda op, id_, amount, floor: command(op, id_, amount=amount, floor=floor),
    st.sampled_from(["increment", "decrement"]),
    st.integers(0, 12),
    st.integers(1, 20),
    st.integers(-10, 10),
)


@given(st.lists(stock_commands, max_size=60))
def test_no_stock_goes_below_a_floor_and_a_repeat_has_the_first_answer(sent: list[Fields]) -> None:
    value, first, expected = 0, {}, []
    for one in sent:
        if one["id"] not in first:
            if one["op"] == "increment":
                value += one["amount"]
                first[one["id"]] = (True, value)
            else:
                fits = value - one["amount"] >= one["floor"]
                value -= one["amount"] if fits else 0
                first[one["id"]] = (fits, max(0, value - one["floor"]))
        expected.append(first[one["id"]])
    assert answers([Sent(one, 1_000) for one in sent]) == expected


quota = st.lists(
    st.tuples(st.integers(0, 700), st.integers(1, 4), st.integers(0, 40)), min_size=1, max_size=60
)
"""Milliseconds since the command before (some go back), amounts, and ids of which some repeat."""


def as_sent(rows: list[tuple[int, int, int]], limit: int, window_ms: int, kind: str) -> list[Sent]:
    at_ms, sent = 10_000, []
    for gap_ms, amount, id_ in rows:
        at_ms += gap_ms - 100
        fields = command(
            "acquire", id_, amount=amount, limit=limit, window_ms=window_ms, window=kind
        )
        sent.append(Sent(fields, at_ms))
    return sent


def granted_by_hand(
    sent: list[Sent], limit: int, still_counts: Callable[[int, int], bool]
) -> list[tuple[bool, int]]:
    """What each command is answered, where a grant at one time still counts at another or not."""
    now_ms, expected = 0, []
    first: dict[str, tuple[bool, int]] = {}
    granted: list[tuple[int, int]] = []
    for one in sent:
        now_ms = max(now_ms, one.timestamp_ms)
        id_, amount = one.fields["id"], one.fields["amount"]
        if id_ not in first:
            used = sum(much for at_ms, much in granted if still_counts(at_ms, now_ms))
            fits = used + amount <= limit
            if fits:
                granted.append((now_ms, amount))
                used += amount
            first[id_] = (fits, limit - used)
        expected.append(first[id_])
    return expected


@given(quota, st.integers(1, 12), st.integers(1, 3_000))
def test_a_fixed_window_grants_up_to_its_limit(
    rows: list[tuple[int, int, int]], limit: int, window_ms: int
) -> None:
    sent = as_sent(rows, limit, window_ms, "fixed")
    expected = granted_by_hand(
        sent, limit, lambda at_ms, now_ms: at_ms // window_ms == now_ms // window_ms
    )
    assert answers(sent) == expected


@given(quota, st.integers(1, 12), st.integers(1, 1_000))
def test_a_short_sliding_window_is_exact_to_the_millisecond(
    rows: list[tuple[int, int, int]], limit: int, window_ms: int
) -> None:
    # What was granted exactly one window ago counts for this one millisecond more.
    sent = as_sent(rows, limit, window_ms, "sliding")
    expected = granted_by_hand(sent, limit, lambda at_ms, now_ms: at_ms >= now_ms - window_ms)
    assert answers(sent) == expected


@given(quota, st.integers(1, 12), st.integers(1, 5_000_000))
def test_no_sliding_window_has_more_than_its_limit_and_none_refuses_needlessly(
    rows: list[tuple[int, int, int]], limit: int, window_ms: int
) -> None:
    scaled = [(gap * max(1, window_ms // 3_000), amount, id_) for gap, amount, id_ in rows]
    sent = as_sent(scaled, limit, window_ms, "sliding")
    found = answers(sent)
    now_ms, seen = 0, set()
    granted: list[tuple[int, int]] = []
    for one, (accepted, _) in zip(sent, found, strict=True):
        now_ms = max(now_ms, one.timestamp_ms)
        if one.fields["id"] in seen:
            continue
        seen.add(one.fields["id"])
        amount = one.fields["amount"]
        inside = sum(much for at_ms, much in granted if now_ms - window_ms < at_ms)
        nearby = sum(much for at_ms, much in granted if now_ms - window_ms * 1.002 - 2 < at_ms)
        if accepted:
            assert inside + amount <= limit
            granted.append((now_ms, amount))
        else:
            assert nearby + amount > limit


@given(st.lists(st.tuples(st.integers(0, 3_000), st.integers(0, 2_000)), max_size=40))
def test_an_id_is_forgotten_after_its_horizon_in_log_time(rows: list[tuple[int, int]]) -> None:
    at_ms, sent, expected = 0, [], []
    first: dict[str, tuple[int, int]] = {}
    value = 0
    for id_, gap_ms in rows:
        at_ms += gap_ms
        fields = command("increment", id_ % 5, ids_horizon_ms=3_000)
        sent.append(Sent(fields, at_ms))
        known = first.get(fields["id"])
        if known is None or known[1] < at_ms - 3_000:
            value += 1
            first[fields["id"]] = known = (value, at_ms)
        expected.append((True, known[0]))
    assert answers(sent) == expected
