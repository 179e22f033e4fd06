"""What the changelog of strict counters holds: one record per counter. Pure.

It is compacted, so the last write of a key wins, and a woken zombie may write last. A key therefore
ends with the number of its writer, at random and anew for each time a partition is taken: nobody
overwrites what another wrote. States are functions of the log, so of several records of a counter
the one with the greatest `through` holds, and no order of writers is needed.

    key     MessagePack [1, counter, writer]
    value   MessagePack, see `_Value`; no value is a tombstone
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import NamedTuple

import msgspec

from pipeline.errors import OperatorError
from pipeline.strict.state import CounterState, Decision, Known
from pipeline.strict.windows import Used, WindowOf

FORMAT = 1
DIGEST_BYTES = 16
LOG_MS_MAX = 1 << 62
"""Far beyond any time of a log, and such that the distance of any two can be written."""

_Key = tuple[int, str, bytes]
_decode_key = msgspec.msgpack.Decoder(_Key).decode
_encode = msgspec.msgpack.Encoder().encode


class _Value(msgspec.Struct, array_like=True):
    """A counter. Ids are one text of digests; beside them, in the same order, `answers` are twice
    the remaining amount, and one more if it was accepted, and `times` the milliseconds since the
    one before. A window is whether it slides, its length, and its steps with what was granted."""

    format: int
    value: int
    through: int
    log_ms: int
    digests: bytes
    answers: list[int]
    times: list[int]
    windows: list[tuple[bool, int, dict[int, int]]]


_decode_value = msgspec.msgpack.Decoder(_Value).decode


def record_key(counter: str, writer: bytes) -> bytes:
    """The key of what a writer wrote of a counter."""
    return _encode((FORMAT, counter, writer))


def counter_of(key: bytes) -> str:
    """The counter that a key is of. Raises OperatorError for what Tally did not write."""
    try:
        found: _Key = _decode_key(key)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise _foreign("key") from error
    if found[0] != FORMAT:
        raise _foreign(f"key of format {found[0]}")
    return found[1]


def record_value(state: CounterState) -> bytes:
    """A state as bytes; equal states give equal bytes."""
    times = [known.log_ms for known in state.ids.values()]
    return _encode(
        _Value(
            FORMAT,
            state.value,
            state.through,
            state.log_ms,
            b"".join(state.ids),
            [
                known.decision.remaining * 2 + known.decision.accepted
                for known in state.ids.values()
            ],
            [later - earlier for earlier, later in pairwise([0, *times])],
            [
                (used.of.is_sliding, used.of.length_ms, used.steps)
                for used in state.windows.values()
            ],
        )
    )


def read_state(value: bytes) -> CounterState:
    """The state in a record. Raises OperatorError for what this Tally cannot read."""
    found = _value(value)
    digests = _digests(found)
    state = CounterState(found.value, found.through, found.log_ms)
    for digest, answer, log_ms in zip(digests, found.answers, accumulate(found.times), strict=True):
        state.ids[digest] = Known(_decision(answer), log_ms)
        if abs(log_ms) > LOG_MS_MAX:
            raise _foreign("value with a time that no log has")
    if len(state.ids) != len(digests):
        raise _foreign("value that has an id twice")
    for is_sliding, length_ms, steps in found.windows:
        of = WindowOf(is_sliding, length_ms)
        state.windows[of] = Used(of, steps, sum(steps.values()))
    return state


def _digests(found: _Value) -> list[bytes]:
    written = found.digests
    return [written[at : at + DIGEST_BYTES] for at in range(0, len(written), DIGEST_BYTES)]


@dataclass(frozen=True, slots=True)
class Told:
    """A record as those who wait for answers read it: little is looked at."""

    _value: _Value

    @property
    def through(self) -> int:
        """The last offset that is decided of the counter."""
        return self._value.through

    def answer(self, digest: bytes) -> Decision | None:
        """What was decided for an id; None where it is not among those remembered."""
        digests = self._value.digests
        at = digests.rfind(digest)
        while at >= 0 and at % DIGEST_BYTES:
            at = digests.rfind(digest, 0, at + DIGEST_BYTES - 1)
        return None if at < 0 else _decision(self._value.answers[at // DIGEST_BYTES])


def told(value: bytes) -> Told:
    """A record's value, read for its answers. Raises OperatorError as `read_state`."""
    return Told(_value(value))


class Summary(NamedTuple):
    """What of a state is for reading."""

    value: int
    through: int
    log_ms: int


def summary_of(value: bytes) -> Summary:
    """What a record's state has counted, and how far. Raises OperatorError as `read_state`."""
    found = _value(value)
    return Summary(found.value, found.through, found.log_ms)


def _value(value: bytes) -> _Value:
    try:
        found = _decode_value(value)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise _foreign("value") from error
    if found.format != FORMAT:
        raise _foreign(f"value of format {found.format}")
    if not _makes_sense(found):
        raise _foreign("value that makes no sense")
    return found


def _makes_sense(found: _Value) -> bool:
    """Whether a state can be made of it: ids with their answers, windows of some length."""
    windows = {(is_sliding, length_ms) for is_sliding, length_ms, _ in found.windows}
    return (
        len(found.digests) == DIGEST_BYTES * len(found.answers)
        and len(found.answers) == len(found.times)
        and len(windows) == len(found.windows)
        and all(length_ms > 0 for _, length_ms in windows)
    )


def _decision(answer: int) -> Decision:
    return Decision(bool(answer & 1), answer >> 1)


def _foreign(what: str) -> OperatorError:
    return OperatorError(
        f"the changelog of strict counters has a {what} that this Tally does not know: use the "
        "version that wrote it, and check who else writes to that topic"
    )
