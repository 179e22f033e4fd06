"""Runs many schedules and prints what happened: `python -m tests.simulation --schedules 100000`."""

import argparse
import os
import sys
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor

from tests.simulation.schedule import Schedule
from tests.simulation.variants import VARIANTS, first_caught

CHUNK = 500


def run_chunk(first: int) -> tuple[Counter[str], list[tuple[int, str]]]:
    """Faults and problems of the schedules from seed `first` on."""
    faults: Counter[str] = Counter()
    problems = []
    for seed in range(first, first + CHUNK):
        schedule = Schedule(seed).run()
        faults.update(schedule.faults)
        if schedule.problem is not None:
            problems.append((seed, schedule.problem))
    return faults, problems


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--schedules", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=0, help="of the first schedule")
    parser.add_argument("--processes", type=int, default=os.cpu_count())
    parser.add_argument("--variants", action="store_true", help="also the broken ones")
    options = parser.parse_args()
    began = time.monotonic()
    faults: Counter[str] = Counter()
    problems: list[tuple[int, str]] = []
    starts = range(options.seed, options.seed + options.schedules, CHUNK)
    with ProcessPoolExecutor(options.processes) as pool:
        for found_faults, found in pool.map(run_chunk, starts):
            faults += found_faults
            problems += found
    seconds, count = time.monotonic() - began, len(starts) * CHUNK
    print(
        f"{count:,} schedules from seed {options.seed} in {seconds:.0f} s: {count / seconds:,.0f}/s"
    )
    for name, times in faults.most_common():
        print(f"  {times:>9,}  {name}")
    for seed, problem in problems:
        print(f"DIFFERENCE with seed {seed}: {problem}")
    print(f"{len(problems)} differences")
    uncaught = 0
    for variant in VARIANTS if options.variants else ():
        caught = first_caught(variant, range(20_000))
        uncaught += caught is None
        when = "NOT CAUGHT" if caught is None else f"caught by seed {caught.seed}"
        print(f"  {variant.__name__:<46} {when}")
    return 1 if problems or uncaught else 0


if __name__ == "__main__":
    sys.exit(main())
