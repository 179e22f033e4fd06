"""Values of records in `tally.strict`: a line each, decided one after the other."""

from __future__ import annotations

from pipeline.errors import BadInputError
from pipeline.strict.changelog import read_state, record_value
from pipeline.strict.state import VALUE_MAX, WINDOWS_MAX, CounterState
from schemas.rules import STRICT_IDS_MAX
from schemas.strict import read_command

PROMISE = "a command is decided within its bounds and its state kept whole, or refused by a reason"

_START_MS = 1_790_000_000_000
_STEP_MS = 700


def seeds() -> list[bytes]:
    increment = b'{"id":"1","counter":"a:b","op":"increment","amount":5}'
    decrement = b'{"id":"2","counter":"a:b","op":"decrement","amount":6,"floor":-1}'
    acquire = b'{"id":"3","counter":"a:b","op":"acquire","limit":5,"window_ms":1000}'
    sliding = acquire[:-1].replace(b'"3"', b'"4"') + b',"window":"sliding","amount":1099511627776}'
    return [
        increment,
        b"\n".join((increment, decrement, acquire, sliding, increment, b"")),
        b"\n".join(
            acquire.replace(b"1000", b"%d" % n).replace(b'"3"', b'"%d"' % n) for n in (1, 9)
        ),
        b'{"id":"1","counter":"a:b","op":"acquire"}',
        b'{"id":"","counter":"a","op":[],"amount":0,"ids_kept":1,"ids_horizon_ms":null}',
    ]


def check(data: bytes) -> None:
    state = CounterState()
    for offset, line in enumerate(data.split(b"\n")):
        try:
            command = read_command(line)
        except BadInputError as error:
            assert str(error)
            continue
        assert read_command(command.record()).record() == command.record()
        before = state.value
        decided = state.decide(command, offset, _START_MS + offset * _STEP_MS)
        assert decided is not None
        assert state.value <= VALUE_MAX
        assert decided.decision.remaining >= 0 or decided.repeated or command.op == "increment"
        if command.op == "decrement" and not decided.repeated and decided.decision.accepted:
            assert state.value == before - command.amount >= command.floor
    assert len(state.windows) <= WINDOWS_MAX
    assert len(state.ids) <= STRICT_IDS_MAX
    assert read_state(record_value(state)) == state
