"""The command: `python -m tests.chaos --minutes M [--seed N] [--kafka] [--only KIND] [--show]`."""

import argparse
import random
import signal
import sys
import tempfile
from pathlib import Path

from tests.chaos.run import RATE_PER_S, run, tidy
from tests.chaos.schedule import IMPOSSIBLE, KINDS, possible, schedule
from tests.kit.kafka import why_no_kafka


def main() -> int:
    """0 if every number is true and no bug was met with, else 1; 2 for wrong usage."""
    options = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    options.add_argument("--minutes", type=float, default=1.0, help="how long harm is done")
    options.add_argument("--seed", type=int, help="plays a schedule again; default: a new one")
    options.add_argument("--kafka", action="store_true", help="a real Apache Kafka as the log")
    options.add_argument("--only", choices=KINDS, action="append", help="this harm alone; repeat")
    options.add_argument("--rate", type=float, default=RATE_PER_S, help="of each of four senders")
    options.add_argument("--pace", type=float, default=1.0, help="3: three times as slowly")
    options.add_argument("--show", action="store_true", help="print the schedule, and do nothing")
    given = options.parse_args()
    # Whoever ends it with a signal gets the disks back, too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    seed = random.SystemRandom().randrange(1 << 32) if given.seed is None else given.seed
    kinds = tuple(given.only or KINDS)
    kind = "kafka" if given.kafka else "embedded"
    if given.show:
        print(*possible(schedule(seed, given.minutes * 60, kinds), IMPOSSIBLE[kind]), sep="\n")
        return 0
    if given.kafka and (why := why_no_kafka()) is not None:
        print(why, file=sys.stderr)
        return 2
    folder = Path(tempfile.mkdtemp(prefix=f"tally-chaos-{seed}-"))

    def tell(text: str) -> None:
        print(text, flush=True)

    outcome = run(
        seed,
        given.minutes * 60,
        folder,
        kind=kind,
        kinds=kinds,
        tell=tell,
        rate=given.rate,
        pace=given.pace,
    )
    print(outcome)
    if not outcome.is_well:
        again = f"make chaos MINUTES={given.minutes:g} SEED={seed}{' KAFKA=1' * given.kafka}"
        print(f"what the parts printed is in {folder}; again: {again}")
        return 1
    tidy(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
