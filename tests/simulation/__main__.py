"""Runs many schedules and prints what happened: `python -m tests.simulation --schedules 100000`."""

import argparse
import os
import sys
import time
from collections import Counter
from concurrent.futures import Executor, ProcessPoolExecutor
from dataclasses import dataclass, field

from tests.simulation.schedule import played
from tests.simulation.variants import VARIANTS, first_caught

CHUNK = 500
VARIANT_SCHEDULES = 20_000


@dataclass
class Found:
    """What some schedules were like: their faults, and the seed of each that went wrong."""

    schedules: int = 0
    steps: int = 0
    cpu_s: float = 0.0
    faults: Counter[str] = field(default_factory=Counter)
    problems: list[tuple[int, str]] = field(default_factory=list)

    def add(self, other: "Found") -> None:
        self.schedules += other.schedules
        self.steps += other.steps
        self.cpu_s += other.cpu_s
        self.faults.update(other.faults)
        self.problems += other.problems


def run_seeds(seeds: range) -> Found:
    """Play the schedules of these seeds, in this process."""
    found, began_s = Found(), time.process_time()
    for schedule in played(seeds):
        found.schedules += 1
        found.steps += schedule.steps
        found.faults.update(schedule.faults)
        if schedule.problem is not None:
            found.problems.append((schedule.seed, schedule.problem))
    found.cpu_s = time.process_time() - began_s
    return found


def run_schedules(pool: Executor, seeds: range) -> bool:
    """Play them all, print what they were like; True if none found a difference."""
    began_s, found = time.monotonic(), Found()
    chunks = [seeds[i : i + CHUNK] for i in range(0, len(seeds), CHUNK)]
    for part in pool.map(run_seeds, chunks):
        found.add(part)
    seconds = time.monotonic() - began_s
    print(
        f"{found.schedules:,} schedules of {found.steps:,} steps from seed {seeds.start} in "
        f"{seconds:.0f} s: {found.schedules / seconds:,.0f}/s; in {found.cpu_s:.0f} s of CPU time: "
        f"{found.schedules / found.cpu_s:,.0f}/s a core"
    )
    for name, times in found.faults.most_common():
        print(f"  {times:>9,}  {name}")
    for seed, problem in found.problems:
        print(f"DIFFERENCE with seed {seed}: {problem}")
    print(f"{len(found.problems)} differences")
    return not found.problems


def seed_that_catches(number: int) -> int | None:
    """The first seed that notices the variant of this number."""
    caught = first_caught(VARIANTS[number], VARIANT_SCHEDULES)
    return None if caught is None else caught.seed


def run_variants(pool: Executor) -> bool:
    """Print which schedule notices each broken variant; True if all are noticed."""
    seeds = list(pool.map(seed_that_catches, range(len(VARIANTS))))
    for variant, seed in zip(VARIANTS, seeds, strict=True):
        when = "NOT CAUGHT" if seed is None else f"caught by seed {seed}"
        print(f"  {variant.__name__:<46} {when}")
    return None not in seeds


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--schedules", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=0, help="of the first schedule")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="processes, one a core")
    parser.add_argument("--variants", action="store_true", help="also the broken ones")
    options = parser.parse_args()
    seeds = range(options.seed, options.seed + options.schedules)
    with ProcessPoolExecutor(options.jobs) as pool:
        good = run_schedules(pool, seeds)
        if options.variants:
            good = run_variants(pool) and good
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
