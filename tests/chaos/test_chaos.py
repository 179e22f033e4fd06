"""A whole Tally under load, broken by a schedule: every number is true in the end.

The short form has every kind of harm once, in a minute; `make prove` does half an hour of it, and
`make chaos` as long as you like. Both forms run on both brokers.
"""

import re
from pathlib import Path

import pytest

from tests.chaos.proof import prove, timeout_s
from tests.chaos.schedule import REPLAY

MINUTE_S = 60.0
LONG_S = 30 * MINUTE_S

UNDONE_MAX = 1 / 2
"""Of the kinds of a minute: each comes once or twice there, perhaps while its part is away, and a
command takes as long as servers do to come back."""

ALWAYS_DONE = re.compile("skew|fill|kill sender")
"""Kinds for which no server has to be there."""

BROKERS = ("embedded", pytest.param("kafka", marks=pytest.mark.kafka))


@pytest.mark.timeout(timeout_s(MINUTE_S))
@pytest.mark.parametrize("kind", BROKERS)
def test_every_number_is_true_after_a_minute_of_every_kind_of_harm(
    kind: str, tmp_path: Path
) -> None:
    outcome = prove(kind, MINUTE_S, tmp_path)
    assert len(outcome.undone) <= UNDONE_MAX * len(outcome.planned), str(outcome)
    assert [one for one in outcome.undone if ALWAYS_DONE.match(one)] == [], str(outcome)


@pytest.mark.prove
@pytest.mark.timeout(timeout_s(LONG_S))
@pytest.mark.parametrize("kind", BROKERS)
def test_every_number_is_true_after_half_an_hour_of_harm(kind: str, tmp_path: Path) -> None:
    outcome = prove(kind, LONG_S, tmp_path)
    assert outcome.is_well, str(outcome)
    assert outcome.replayed is not None
    assert outcome.harms.count(REPLAY) > 0, f"no build was taken amid the harms: {outcome}"
    assert outcome.undone == [], str(outcome)
