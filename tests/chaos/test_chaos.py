"""A whole Tally under load, broken by a schedule: every number is true in the end.

The short form has every kind of harm once, in a minute; `make prove` does half an hour of it, and
`make chaos` as long as you like. Both forms run on both brokers.
"""

import random
import re
from pathlib import Path

import pytest

from tests.chaos.crew import FINISH_TIMEOUT_S
from tests.chaos.quiet import SETTLE_TIMEOUT_S
from tests.chaos.run import REPLAY_TIMEOUT_S, BrokerLostError, Outcome, run
from tests.chaos.schedule import LULL_MORE_S, LULLS_AT_S, REPLAY
from tests.kit.kafka import require_kafka

MINUTE_S = 60.0
LONG_S = 30 * MINUTE_S
LULLS_MORE_S = LULL_MORE_S * len(LULLS_AT_S)
LONG_TIMEOUT_S = (
    LONG_S + LULLS_MORE_S + 4 * SETTLE_TIMEOUT_S + FINISH_TIMEOUT_S + REPLAY_TIMEOUT_S + 600
)
"""What everything that is waited for may take, and ten minutes for what is compared."""


UNDONE_MAX = 1 / 2
"""Of the kinds of a minute: each comes once or twice there, perhaps while its part is away, and a
command takes as long as servers do to come back."""

ALWAYS_DONE = re.compile("skew|fill|kill sender")
"""Kinds for which no server has to be there."""

BROKERS = ("embedded", pytest.param("kafka", marks=pytest.mark.kafka))


@pytest.mark.timeout(900)
@pytest.mark.parametrize("kind", BROKERS)
def test_every_number_is_true_after_a_minute_of_every_kind_of_harm(
    kind: str, tmp_path: Path
) -> None:
    outcome = prove(kind, MINUTE_S, tmp_path)
    assert len(outcome.undone) <= UNDONE_MAX * len(outcome.planned), str(outcome)
    assert [one for one in outcome.undone if ALWAYS_DONE.match(one)] == [], str(outcome)


@pytest.mark.prove
@pytest.mark.timeout(LONG_TIMEOUT_S)
@pytest.mark.parametrize("kind", BROKERS)
def test_every_number_is_true_after_half_an_hour_of_harm(kind: str, tmp_path: Path) -> None:
    outcome = prove(kind, LONG_S, tmp_path)
    assert outcome.replayed is not None
    assert outcome.harms.count(REPLAY) > 0, f"no build was taken amid the harms: {outcome}"
    assert outcome.undone == [], str(outcome)


def prove(kind: str, seconds: float, folder: Path) -> Outcome:
    """A difference is shown with its seed, which plays the schedule again: `make chaos SEED=…`."""
    if kind == "kafka":
        require_kafka()
    seed = random.SystemRandom().randrange(1 << 32)
    try:
        outcome = run(seed, seconds, folder, kind=kind)
    except BrokerLostError as error:
        pytest.skip(f"seed {seed} says nothing of Tally: {error}")
    print(outcome)
    assert outcome.is_well, str(outcome)
    assert outcome.verdict.acknowledged > 0
    return outcome
