"""Records of the strict changelog that Tally never writes are told to the operator."""

import msgspec
import pytest

from pipeline.errors import OperatorError
from pipeline.strict.changelog import counter_of, read_state, told
from pipeline.strict.state import id_digest

WHOLE = (1, 5, 2, 3, b"x" * 16, [1], [1], [(True, 1000, {1: 2})])


def test_a_whole_one_is_read() -> None:
    assert read_state(msgspec.msgpack.encode(WHOLE)).value == 5


@pytest.mark.parametrize(
    "value",
    [
        (1, 5, 2, 3, b"x" * 15, [1], [1], []),
        (1, 5, 2, 3, b"x" * 16, [], [1], []),
        (1, 5, 2, 3, b"x" * 32, [1, 2], [1], []),
        (1, 5, 2, 3, b"", [], [], [(True, 0, {})]),
        (1, 5, 2, 3, b"", [], [], [(True, 5, {}), (True, 5, {})]),
        (2, 5, 2, 3, b"", [], [], []),
    ],
    ids=["a digest in part", "no answer", "no time", "no window", "a window twice", "format"],
)
def test_a_value_that_makes_no_sense_is_told(value: object) -> None:
    written = msgspec.msgpack.encode(value)
    with pytest.raises(OperatorError, match="this Tally does not know"):
        read_state(written)
    with pytest.raises(OperatorError, match="this Tally does not know"):
        told(written).answer(id_digest("1"))


@pytest.mark.parametrize(
    "value",
    [
        (1, 5, 2, 3, b"x" * 32, [1, 2], [1, 2], []),
        (1, 5, 2, 3, b"x" * 16, [1], [2**63], []),
        (1, 5, 2, 3, b"x" * 16 + b"y" * 16, [1, 2], [2**61, 2**62], []),
        (1, 5, 2, 3, b"x" * 16, [1], [-(2**63)], []),
    ],
    ids=["an id twice", "a time too late", "times that add up to one", "a time too early"],
)
def test_a_state_that_could_not_be_written_again_is_told(value: object) -> None:
    with pytest.raises(OperatorError, match="this Tally does not know"):
        read_state(msgspec.msgpack.encode(value))


def test_a_key_that_is_no_text_is_told() -> None:
    with pytest.raises(OperatorError, match="this Tally does not know"):
        counter_of(b"\x93\x01\xa3a:\x9f\xc4\x01w")


def test_a_value_that_nests_too_deep_is_told() -> None:
    """More than a whole one has, and no end of it."""
    nested = b"\x99" + msgspec.msgpack.encode(WHOLE)[1:] + b"\x91" * 3000
    with pytest.raises(OperatorError, match="this Tally does not know"):
        read_state(nested)
    with pytest.raises(OperatorError, match="this Tally does not know"):
        told(nested)
