"""A synthetic week of one family in three regions, minute by minute, with known phenomena in it.

Imports nothing of the pipeline: this is the truth that trending is measured against. The background
is 3 000 counters by Zipf's law, with a daily cycle (each region has its own phase), days that are
busier than others, a busy weekend, levels that wander by the hour, and over-dispersed minutes: a
negative binomial for the busy ones, clumps of events for the others. The last day holds the
phenomena, at random times.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from numpy.random import Generator
    from numpy.typing import NDArray

    Numbers: TypeAlias = NDArray[np.float64]
    Counts: TypeAlias = NDArray[np.int64]

REGIONS = {"eu": (1.0, 0), "us": (0.7, 480), "asia": (0.4, 960)}
"""How busy each is, and by how many minutes its day is shifted."""

DAY = 1440
DAYS = 7
MINUTES = DAYS * DAY
BACKGROUND = 3000
BUSY = 300
BLOCK = 30
LAST_DAY = 6 * DAY
FIRST_START, LAST_START = LAST_DAY + 60, LAST_DAY + 720

_ZIPF = 1.2
_GREATEST = 300.0
_CYCLE = 0.7
_WANDER, _WANDER_HOURS = 0.15, 6.0
_DAYS_SD, _WEEKEND = 0.1, 1.2
_SHAPE = 20.0
_CLUMP = 1.3
_UNIQUES_ERROR = 0.015


@dataclass(frozen=True, slots=True)
class Phenomenon:
    """What happens to one counter: `rate` is its own, in events a minute; `extra` is added to it.

    `regions` are where; the extra is as great in each as the region is busy.
    """

    name: str
    rate: float
    extra: float = 0.0
    minutes: int = 0
    ramp: int = 0
    members: int | None = None
    regions: tuple[str, ...] = tuple(REGIONS)


PHENOMENA = (
    Phenomenon("giant", rate=3000.0),
    Phenomenon("burst", rate=0.5, extra=40.0, minutes=30),
    Phenomenon("busy burst", rate=20.0, extra=150.0, minutes=30),
    Phenomenon("local burst", rate=0.5, extra=40.0, minutes=30, regions=("eu",)),
    Phenomenon("newborn", rate=0.0, extra=4.0, minutes=180),
    Phenomenon("riser", rate=2.0, extra=10.0, minutes=600, ramp=480),
    Phenomenon("fluke", rate=0.02, extra=9.0, minutes=1, regions=("eu",)),
    Phenomenon("bot", rate=1.0, extra=200.0, minutes=60, members=3),
)


@dataclass(frozen=True, slots=True)
class Week:
    """Counts by region, (minutes + 1) x counters: row m is the sum of all minutes before m.

    `bots` are such sums of what bots did, by region and row, with how many members each has.
    `starts` are the minutes in which phenomena begin.
    """

    names: list[str]
    sums: dict[str, NDArray[np.uint32]]
    bots: dict[tuple[str, int], tuple[Counts, int]]
    starts: dict[str, int]

    def counts(self, region: str, rows: Counts, first: int, end: int) -> Counts:
        """Minutes first to end - 1, one column each."""
        sums = self.sums[region][first : end + 1, rows].astype(np.int64)
        return (sums[1:] - sums[:-1]).T

    def total(self, region: str, first: int, end: int) -> Counts:
        """Of every counter, in minutes first to end - 1."""
        total: Counts = (self.sums[region][end] - self.sums[region][first]).astype(np.int64)
        return total

    def uniques(self, region: str, first: int, end: int) -> Numbers:
        """Distinct members of every counter, as a sketch estimates them.

        Four do five events; of a bot's events, its few members are all there is.
        """
        people = self.total(region, first, end).astype(np.float64)
        few = np.zeros(len(people))
        for (where, row), (sums, members) in self.bots.items():
            if region in {"*", where} and sums[end] > sums[first]:
                people[row] -= sums[end] - sums[first]
                few[row] = members
        rng = np.random.default_rng([first, list(self.sums).index(region)])
        error = 1.0 + rng.normal(0.0, _UNIQUES_ERROR, len(people))
        return np.rint((0.8 * people + few) * error)


def make_week(seed: int, background: int = BACKGROUND) -> Week:
    """The same for the same seed. Takes some seconds and half a gigabyte."""
    rng = np.random.default_rng(seed)
    rates = np.concatenate(
        [
            _GREATEST * np.arange(1, background + 1, dtype=np.float64) ** -_ZIPF,
            [one.rate for one in PHENOMENA],
        ]
    )
    starts = rng.integers(FIRST_START, LAST_START, len(PHENOMENA))
    sums: dict[str, NDArray[np.uint32]] = {}
    bots: dict[tuple[str, int], tuple[Counts, int]] = {}
    whole = np.zeros((MINUTES + 1, len(rates)), dtype=np.uint32)
    for region, (size, shift) in REGIONS.items():
        counts = _background(rng, rates * size, _cycle(rng, shift))
        for row, (one, start) in enumerate(zip(PHENOMENA, starts, strict=True), background):
            if region in one.regions and one.extra:
                extra = rng.poisson(_extra(one, int(start), rng.random()) * size)
                counts[1:, row] += extra.astype(np.uint32)
                if one.members is not None:
                    bots[region, row] = (np.cumsum(np.append(0, extra)), one.members)
        sums[region] = np.cumsum(counts, axis=0, dtype=np.uint32, out=counts)
        whole += sums[region]
    names = [f"tag:{rank}" for rank in range(1, background + 1)]
    names += [f"tag:{one.name}" for one in PHENOMENA]
    at = {one.name: int(start) for one, start in zip(PHENOMENA, starts, strict=True)}
    return Week(names, {**sums, "*": whole}, bots, at)


def _cycle(rng: Generator, shift: int) -> Numbers:
    """How busy a region is in each minute, 1 in the mean of an ordinary day."""
    minute = np.arange(MINUTES)
    daily = 1.0 - _CYCLE * np.cos(2 * np.pi * (minute + shift) / DAY)
    day = rng.lognormal(0.0, _DAYS_SD, DAYS + 1) * np.where(np.arange(DAYS + 1) >= 5, _WEEKEND, 1.0)
    # One day goes over into the next during the night, not at midnight.
    place = np.clip((minute + shift) / DAY, 0, DAYS)
    blend = np.clip((place % 1) * 6, 0, 1)
    today = day[np.minimum(place.astype(int), DAYS)]
    yesterday = day[np.maximum(np.minimum(place.astype(int), DAYS) - 1, 0)]
    busy: Numbers = daily * (blend * today + (1 - blend) * yesterday)
    return busy


def _wandering(rng: Generator, counters: int) -> Numbers:
    """A level per block and counter that wanders about 1."""
    kept = np.exp(-BLOCK / 60 / _WANDER_HOURS)
    steps = rng.normal(0.0, _WANDER, (MINUTES // BLOCK, counters))
    for block in range(1, len(steps)):
        steps[block] = kept * steps[block - 1] + np.sqrt(1 - kept**2) * steps[block]
    return np.exp(steps - _WANDER**2 / 2)


def _background(rng: Generator, rates: Numbers, cycle: Numbers) -> NDArray[np.uint32]:
    """Counts by minute and counter; the first row is empty."""
    counts = np.zeros((MINUTES + 1, len(rates)), dtype=np.uint32)
    level = _wandering(rng, len(rates)) * rates
    is_busy = rates > np.sort(rates)[-BUSY]
    means = np.repeat(level[:, is_busy], BLOCK, axis=0) * cycle[:, None]
    means *= rng.standard_gamma(_SHAPE, means.shape) / _SHAPE
    counts[1:, is_busy] = rng.poisson(means)
    quiet = np.flatnonzero(~is_busy)
    _add_clumps(rng, counts, quiet, level[:, quiet] * cycle.reshape(-1, BLOCK).sum(axis=1)[:, None])
    return counts


def _add_clumps(rng: Generator, counts: NDArray[np.uint32], rows: Counts, means: Numbers) -> None:
    """Clumps of events in single minutes, by block: most of one event, some of several."""
    clumps = rng.poisson(means / _CLUMP)
    block, row = (np.repeat(one, clumps.ravel()) for one in np.indices(clumps.shape).reshape(2, -1))
    minute = block * BLOCK + rng.integers(0, BLOCK, len(block))
    events = rng.geometric(1 / _CLUMP, len(block)).astype(np.uint32)
    np.add.at(counts, (1 + minute, rows[row]), events)


def _extra(one: Phenomenon, start: int, within: float) -> Numbers:
    """The mean of what is added in each minute; it begins somewhere within the first."""
    minute = np.arange(MINUTES) - start
    extra = np.where((minute >= 0) & (minute < one.minutes), one.extra, 0.0)
    if one.ramp:
        extra *= np.clip((minute + 1) / one.ramp, 0.0, 1.0)
    if one.minutes > 1:
        extra[start] *= 1.0 - within
    return extra
