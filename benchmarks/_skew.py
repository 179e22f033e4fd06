"""What partition skew costs: the busiest partition, the workers it takes, the rate it allows. Pure.

Shares are expected values over many rows: what chance adds within a second is in
docs/sharding.md. A worker bears a given number of rows a second, whoever they are of.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from faust.assignor.client_assignment import CopartitionedAssignment
from faust.assignor.copartitioned_assignor import CopartitionedAssignor

from benchmarks._skew_load import Counters, spread
from benchmarks._skew_plan import settle

if TYPE_CHECKING:
    from collections.abc import Callable

    from benchmarks._skew_load import Shares
    from pipeline.planning.planner import Thresholds

EXPONENTS = (0.8, 1.0, 1.2)
PARTITIONS = (8, 16, 32, 64, 128, 256)
COUNTERS = 1_000_000
VIRAL_SHARE = 0.2
WORTH = 4
"""The load that shares and workers are told for is what a WORTH-th of the partitions' number of
workers could bear if it were even."""

_STEP = 2**0.25
_HALVINGS = 6


@dataclass(frozen=True, slots=True)
class Way:
    """With every counter whole, or with the plan.

    `busiest` is the greatest share of a partition, and `workers` the least number of them that bear
    the load, None where no number is enough; `rate_max` is the total rate up to which no partition
    has more than one worker bears.
    """

    busiest: float
    workers: int | None
    rate_max: float


@dataclass(frozen=True, slots=True)
class Skew:
    """One exponent and number of partitions, at a load that is worth `even` workers.

    `split` is how many counters the plan split, and `settled_s` how long after the viral counter
    came the last of them was.
    """

    exponent: float
    partitions: int
    rate: float
    even: int
    whole: Way
    planned: Way
    split: int
    settled_s: int


@dataclass(frozen=True, slots=True)
class Loads:
    """The same counters before and after one of them went viral."""

    exponent: float
    usual: Counters
    viral: Counters

    @classmethod
    def made(cls, exponent: float, count: int = COUNTERS, share: float = VIRAL_SHARE) -> Loads:
        return cls(exponent, Counters.made(count, exponent), Counters.made(count, exponent, share))


def measure(loads: Loads, partitions: int, worker_rate: float, thresholds: Thresholds) -> Skew:
    """With and without the plan, the load being 1/WORTH of what so many workers could bear."""
    whole = loads.viral.by_partition(partitions)
    even = partitions // WORTH
    rate = even * worker_rate

    def shares_at(total: float) -> Shares:
        settled = settle(loads.usual, loads.viral, total, partitions, thresholds)
        return spread(loads.viral, whole, settled.shards)

    settled = settle(loads.usual, loads.viral, rate, partitions, thresholds)
    planned = spread(loads.viral, whole, settled.shards)
    return Skew(
        loads.exponent,
        partitions,
        rate,
        even,
        Way(float(whole.max()), workers_for(whole, even), worker_rate / float(whole.max())),
        Way(
            float(planned.max()),
            workers_for(planned, even),
            rate_max(shares_at, partitions, worker_rate),
        ),
        len(settled.shards),
        settled.changed_s,
    )


def rate_max(shares_at: Callable[[float], Shares], partitions: int, worker_rate: float) -> float:
    """Up to which total rate the busiest partition has at most `worker_rate`, to about 1 %.

    From one worker's rate on, which is always borne, upwards to the first rate that is not: a plan
    that would bear a greater one again does not help who has to pass this.
    """

    def is_borne(total: float) -> bool:
        return total * float(shares_at(total).max()) <= worker_rate

    borne, most = worker_rate, partitions * worker_rate
    while borne < most and is_borne(min(borne * _STEP, most)):
        borne = min(borne * _STEP, most)
    if borne == most:
        return most
    refused = min(borne * _STEP, most)
    for _ in range(_HALVINGS):
        middle = (borne * refused) ** 0.5
        borne, refused = (middle, refused) if is_borne(middle) else (borne, middle)
    return borne


def workers_for(shares: Shares, worth: float) -> int | None:
    """The least number of workers of which none has more than it bears, the load being what `worth`
    workers bear. None if a partition alone has too much, so that no number is enough."""
    partitions = len(shares)
    for workers in range(max(1, int(worth)), partitions + 1):
        busiest = max(float(shares[owned].sum()) for owned in assigned(partitions, workers))
        if busiest * worth <= 1:
            return workers
    return None


def assigned(partitions: int, workers: int) -> list[list[int]]:
    """The partitions of each worker of a new group, by the assignor that workers use."""
    group = {f"{number:06}": CopartitionedAssignment() for number in range(workers)}
    made = CopartitionedAssignor({"tally.increments"}, group, partitions, 0).get_assignment()
    return [sorted(one.actives) for one in made.values()]
