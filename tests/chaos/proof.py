"""A run of chaos as a test has it: another seed is played where the first says nothing."""

import random
from pathlib import Path

import pytest

from tests.chaos.crew import FINISH_TIMEOUT_S, START_TIMEOUT_S
from tests.chaos.quiet import SETTLE_TIMEOUT_S
from tests.chaos.run import (
    READY_TIMEOUT_S,
    REPLAY_TIMEOUT_S,
    REPLAYED_FROM_S,
    BrokerLostError,
    Outcome,
    run,
)
from tests.chaos.schedule import LULL_MORE_S, lull_ends
from tests.kit.kafka import require_kafka

SEEDS_MAX = 2
"""A broker that lost records by itself twice in a row is not what Kafka usually is."""

COMPARE_S = 600.0
"""For all that is compared, and for servers to start."""

SETTLES = 2
"""So often it is waited in `settle`: for deciders, and for workers."""


def timeout_s(seconds: float) -> float:
    """What everything that is waited for may take. That a run says nothing is known once its harms
    are over, so only as much is waited for on another seed."""
    played_s = READY_TIMEOUT_S + START_TIMEOUT_S + seconds
    played_s += LULL_MORE_S * len(lull_ends(seconds))
    settled_s = SETTLES * SETTLE_TIMEOUT_S
    replayed_s = REPLAY_TIMEOUT_S + settled_s if seconds >= REPLAYED_FROM_S else 0.0
    return SEEDS_MAX * played_s + FINISH_TIMEOUT_S + settled_s + replayed_s + COMPARE_S


def prove(kind: str, seconds: float, folder: Path) -> Outcome:
    """A difference is shown with its seed, which plays the schedule again: `make chaos SEED=…`.

    A run whose broker lost records by itself says nothing of Tally, so another seed is played; it
    fails if that says nothing, either, since nothing would be proved.
    """
    if kind == "kafka":
        require_kafka()
    lost = []
    for number in range(1, SEEDS_MAX + 1):
        seed = random.SystemRandom().randrange(1 << 32)
        own = folder / f"seed-{number}"
        own.mkdir()
        try:
            outcome = run(seed, seconds, own, kind=kind)
        except BrokerLostError as error:
            lost.append(f"seed {seed} says nothing of Tally: {error}")
            print(lost[-1])
            continue
        print(outcome)
        assert outcome.differences == [], str(outcome)
        assert outcome.verdict.acknowledged > 0
        return outcome
    pytest.fail("\n".join(lost))
