"""One event is no events."""

import pytest

from pipeline.amounts import amount


@pytest.mark.parametrize(
    ("number", "said"), [(0, "0 events"), (1, "1 event"), (2, "2 events"), (12345, "12,345 events")]
)
def test_a_noun_is_plural_unless_there_is_one_of_it(number: int, said: str) -> None:
    assert amount(number, "event") == said


def test_a_verb_goes_with_its_noun() -> None:
    assert amount(1, "line", "were") == "1 line was"
    assert amount(2, "dead letter", "were") == "2 dead letters were"
    assert amount(1, "id", "stay") == "1 id stays"
