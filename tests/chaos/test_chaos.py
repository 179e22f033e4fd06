"""A whole Tally under load, broken by a schedule: every number is true in the end.

The short form does every kind of harm once, in a minute; `make prove` does half an hour of it on
both brokers, and `make chaos` as long as you like.
"""

import random
from pathlib import Path

import pytest

from tests.chaos.crew import FINISH_TIMEOUT_S
from tests.chaos.quiet import SETTLE_TIMEOUT_S
from tests.chaos.run import REPLAY_TIMEOUT_S, run
from tests.kit.kafka import require_kafka

MINUTE_S = 60.0
LONG_S = 30 * MINUTE_S
LONG_TIMEOUT_S = LONG_S + 4 * SETTLE_TIMEOUT_S + FINISH_TIMEOUT_S + REPLAY_TIMEOUT_S + 600
"""What everything that is waited for may take, and ten minutes for what is compared."""


@pytest.mark.timeout(900)
def test_every_number_is_true_after_a_minute_of_every_kind_of_harm(tmp_path: Path) -> None:
    prove("embedded", MINUTE_S, tmp_path)


@pytest.mark.prove
@pytest.mark.timeout(LONG_TIMEOUT_S)
@pytest.mark.parametrize("kind", ["embedded", pytest.param("kafka", marks=pytest.mark.kafka)])
def test_every_number_is_true_after_half_an_hour_of_harm(kind: str, tmp_path: Path) -> None:
    if kind == "kafka":
        require_kafka()
    prove(kind, LONG_S, tmp_path)


def prove(kind: str, seconds: float, folder: Path) -> None:
    """A difference is shown with its seed, which plays the schedule again: `make chaos SEED=…`."""
    seed = random.SystemRandom().randrange(1 << 32)
    outcome = run(seed, seconds, folder, kind=kind)
    print(outcome)
    assert outcome.differences == [], str(outcome)
    assert (outcome.replayed is not None) == (seconds == LONG_S)
    assert outcome.verdict.acknowledged > 0
