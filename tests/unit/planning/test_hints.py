"""Hints that make no sense are refused before anybody is asked: no server runs here."""

import pytest

from pipeline.errors import BadInputError
from pipeline.planning.hints import clear, hint
from schemas.addresses import KafkaAddress

KAFKA = "127.0.0.1:1"


@pytest.mark.parametrize(
    ("asked", "reason"),
    [
        ({}, "either a number of shards or an expected rate"),
        ({"n": 2, "expect": 5.0}, "either a number of shards or an expected rate"),
        ({"n": 0}, "1 to 4096 shards"),
        ({"n": 4097}, "1 to 4096 shards"),
        ({"expect": 0.0}, "above 0"),
        ({"expect": -5.0}, "above 0"),
        ({"expect": float("nan")}, "above 0"),
        ({"expect": float("inf")}, "above 0"),
        ({"n": 2, "for_ms": 0}, "at least a millisecond"),
        ({"n": 2, "for_ms": 367 * 86_400_000}, "at most 366 days"),
    ],
)
def test_what_is_no_hint_is_refused(asked: dict[str, float], reason: str) -> None:
    with pytest.raises(BadInputError, match=reason):
        hint(KAFKA, "likes:a", **asked)  # type: ignore[arg-type]  # that is the point


@pytest.mark.parametrize("counter", ["nofamily", "", ":key", "likes:", "likes:\0", "x:" * 129])
def test_what_is_no_counter_is_refused(counter: str) -> None:
    with pytest.raises(BadInputError, match="counter:"):
        hint(KafkaAddress(KAFKA), counter, n=2)
    with pytest.raises(BadInputError, match="counter:"):
        clear(KafkaAddress(KAFKA), counter)
