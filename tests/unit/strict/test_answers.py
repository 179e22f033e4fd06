"""Answers find those who wait for them, and nobody else."""

import asyncio

import pytest

from pipeline.errors import TryAgainError
from pipeline.strict import answers as answers_module
from pipeline.strict.answers import Answers
from pipeline.strict.changelog import record_key, record_value
from pipeline.strict.state import CounterState, Decision, id_digest
from schemas.strict import check_command


def decided(*ids: str) -> bytes:
    state = CounterState()
    for offset, id_ in enumerate(ids):
        state.decide(check_command({"id": id_, "counter": "stock:a", "op": "increment"}), offset, 0)
    return record_value(state)


async def test_what_stands_for_a_batch_that_nobody_can_read_is_passed_over() -> None:
    answers = Answers()
    waiting = answers.expect("stock:a", id_digest("one"))
    answers.hear(None, b"bytes of a batch")
    assert not waiting.done()


async def test_all_who_wait_for_an_id_hear_it_and_others_wait_on() -> None:
    answers = Answers()
    first, again = (answers.expect("stock:a", id_digest("one")) for _ in range(2))
    other = answers.expect("stock:a", id_digest("two"))
    elsewhere = answers.expect("stock:b", id_digest("one"))
    answers.hear(record_key("stock:a", b"w"), decided("zero", "one"))
    assert first.result() == again.result() == Decision(True, 2)
    assert not other.done()
    assert not elsewhere.done()
    answers.hear(record_key("stock:a", b"w"), None)
    answers.hear(record_key("stock:a", b"v"), decided("zero", "one", "two"))
    assert other.result() == Decision(True, 3)
    for digest, future in ((id_digest("one"), first), (id_digest("one"), again)):
        answers.forget("stock:a", digest, future)
    answers.forget("stock:a", id_digest("two"), other)
    answers.forget("stock:b", id_digest("one"), elsewhere)
    assert len(answers) == 0


async def test_only_so_many_may_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answers_module, "WAITING_MAX", 1)
    answers = Answers()
    waiting = answers.expect("stock:a", b"x" * 16)
    with pytest.raises(TryAgainError, match="too many"):
        answers.expect("stock:a", b"y" * 16)
    answers.forget("stock:a", b"x" * 16, waiting)
    assert isinstance(answers.expect("stock:a", b"y" * 16), asyncio.Future)
