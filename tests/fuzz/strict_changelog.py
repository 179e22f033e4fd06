"""Records of the changelog of strict counters: a key, a line break, a value."""

from __future__ import annotations

import msgspec

from pipeline.errors import OperatorError
from pipeline.strict.changelog import (
    counter_of,
    read_state,
    record_key,
    record_value,
    summary_of,
    told,
)
from pipeline.strict.state import CounterState, id_digest
from schemas.strict import read_command

PROMISE = (
    "a state that is written and read again as the same, or OperatorError that tells what to do"
)

_BREAK = b"\n\n"


def seeds() -> list[bytes]:
    state = CounterState()
    for number, op in enumerate((b"increment", b"decrement", b"acquire")):
        command = b'{"id":"%d","counter":"a:b","op":"%s","limit":9,"window_ms":60000}' % (
            number,
            op,
        )
        state.decide(read_command(command), number, 1_790_000_000_000 + number)
    key, value = record_key("a:b", b"w" * 8), record_value(state)
    made = [
        (1, 5, 2, 3, b"x" * 15, [1], [1], []),
        (1, 5, 2, 3, b"x" * 16, [], [1], []),
        (1, 5, 2, 3, b"x" * 32, [1, 2], [1, 2], [(True, 0, {1: 2})]),
        (1, 2**63, 2, 3, b"", [], [], [(False, 7, {1: -(2**62)})]),
        (2, 5, 2, 3, b"", [], [], []),
        # Found: what was read could not be written.
        (1, 5, 2, 3, b"x" * 32, [1, 2], [0, 2**63], []),
    ]
    values = [value, *map(msgspec.msgpack.encode, made)]
    # Found: it nests too deep, where no state has anything.
    nested = b"\x99" + msgspec.msgpack.encode(made[0])[1:] + b"\x91" * 3000
    return [key + _BREAK + one for one in (*values, nested)]


def check(data: bytes) -> None:
    key, _, value = data.partition(_BREAK)
    try:
        assert isinstance(counter_of(key), str)
    except OperatorError as error:
        assert str(error)
    try:
        told(value).answer(id_digest("1"))
        summary = summary_of(value)
        state = read_state(value)
    except OperatorError as error:
        assert str(error)
        return
    assert (state.value, state.through, state.log_ms) == summary
    assert read_state(record_value(state)) == state
    state.decide(
        read_command(b'{"id":"9","counter":"a:b","op":"acquire","limit":5,"window_ms":1000}'),
        state.through + 1,
        state.log_ms,
    )
