"""The race: this pipeline and what people would use instead count one log, in one run.

Run: python -m benchmarks.race [--events N] [--rounds N] [--only NAME] [--kafka] [--write]
     [--json FILE]

docs/benchmarks/race.md says what is measured, from when to when, and has the last published run.
"""

from __future__ import annotations

import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from benchmarks._events import SEED
from benchmarks._kit import WrongAnswerError, compete, parser, write_json
from benchmarks.race.arena import PARTITIONS, arena, load_average
from benchmarks.race.contestants import CEILING, entries
from benchmarks.race.figures import Race, figures_of, table
from benchmarks.race.goals import doubts
from benchmarks.race.page import write
from benchmarks.race.readme import write_readme
from benchmarks.race.turns import NoResultError, Racer
from tests.kit.kafka import why_no_kafka
from tests.kit.kafka_jars import KAFKA_VERSION

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.race.contestants import Entry

EVENTS, ROUNDS = 1_000_000, 3


def race(taking_part: Sequence[Entry], events: int, rounds: int, *, real: bool) -> Race:
    """Fill the logs, let all take turns, and measure. Raises WrongAnswerError for a wrong result,
    NoResultError without one.
    """
    wanted = [(entry.log, entry.share) for entry in taking_part]
    before = load_average()
    with (
        TemporaryDirectory(prefix="tally-race-") as name,
        arena(Path(name), events, wanted, real=real) as found,
    ):
        racers = [Racer(entry, found) for entry in taking_part]
        [ceiling] = [racer for racer in racers if racer.entry.name == CEILING]
        ceiling.take_turn()  # the broker touches its memory and files here
        ceiling.turns.clear()
        compete([racer.contestant for racer in racers], rounds, warm_ups=0)
        counts, size = len(found.truths[found.events].counts), found.bytes_per_event
    return Race(
        broker=f"Apache Kafka {KAFKA_VERSION}" if real else "the embedded log",
        events=events,
        counts=counts,
        partitions=PARTITIONS,
        bytes_per_event=size,
        rounds=rounds,
        seed=SEED,
        load_before=before,
        load_after=load_average(),
        figures=tuple(figures_of(racer, ceiling) for racer in [ceiling, *racers[1:]]),
    )


def main() -> None:
    options = parser(__doc__, EVENTS, ROUNDS)
    options.add_argument("--only", action="append", metavar="NAME", help="and the ceiling")
    options.add_argument("--kafka", action="store_true", help="a real Kafka, not the embedded log")
    options.add_argument("--write", action="store_true", help="write docs/benchmarks/race.*")
    chosen = options.parse_args()
    if chosen.kafka and (reason := why_no_kafka()):
        sys.exit(reason)
    try:
        wanted = entries(chosen.only)
    except ValueError as error:
        options.error(str(error))
    skipped = [line for entry in wanted if (line := entry.missing())]
    for line in skipped:
        print(line)
    taking_part = [entry for entry in wanted if entry.missing() is None]
    try:
        found = race(taking_part, chosen.events, chosen.rounds, real=chosen.kafka)
    except (WrongAnswerError, NoResultError) as error:
        sys.exit(f"the race is void: {error}")
    print(table(found))
    doubtful = doubts(found, {entry.name for entry in taking_part if entry.is_fed})
    for line in doubtful:
        print(line)
    write_json(chosen.json, "race", found.document())
    if chosen.write and not doubtful:
        write(found, skipped)
        write_readme()


if __name__ == "__main__":
    main()
