"""What sketches cost and how right they are, beside those of Apache DataSketches.

Run: python -m benchmarks.sketches [--events N] [--rounds N] [--json FILE]. The first table is
processor time per item, warm, whole columns of 10 000 texts at a time; answers are checked within
the bounds each sketch claims. The second is resident memory per sketch, each in a fresh process.
The third is the size of sketches by their error, the fourth how far answers are off.
"""

from __future__ import annotations

import argparse
import gc
import resource
import subprocess
import sys
import time
from collections import Counter, deque
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import datasketches
import numpy as np
import pyarrow as pa

from benchmarks._kit import Contestant, Outcome, compete, parser, print_rates, rates_document
from benchmarks._kit import write_json as write_figures
from sketches.distinct import Distinct
from sketches.distinct_many import DistinctMany
from sketches.frequency import Frequency
from sketches.heavy import Heavy
from sketches.morris import Morris

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SEED = 1
BATCH = 10_000
ERROR = 0.001  # of frequency and heavy
MEMBERS_AT_LEAST = 200_000  # per process that measures memory
SIZES = (1, 10, 100, 1000)
ALL_ITEMS = datasketches.frequent_items_error_type.NO_FALSE_NEGATIVES


def skewed_keys(count: int, seed: int = SEED) -> list[str]:
    """Keys by Zipf's law, exponent 1.3 over 50 000."""
    numbers = np.random.default_rng(seed).zipf(1.3, count) % 50_000
    return [f"hashtag:#{number}" for number in numbers.tolist()]


def batches(column: Any) -> Iterator[Any]:
    for start in range(0, len(column), BATCH):
        yield column[start : start + BATCH]


def feed(update: Callable[[str], None], column: list[str]) -> None:
    """A C-level loop that calls a sketch's own update for every text."""
    for batch in batches(column):
        deque(map(update, batch), maxlen=0)


def timed(items: int, work: Callable[[], bool]) -> Outcome:
    """Processor time of one run; `work` tells whether its answer is within its bounds."""
    gc.collect()
    start = time.process_time()
    is_right = work()
    return Outcome(items, time.process_time() - start, {"right": int(is_right)}, {"right": 1})


def distinct_contestants(count: int) -> list[Contestant]:
    members = [f"user-{number}" for number in range(count)]
    column = pa.array(members)
    rows = np.random.default_rng(SEED).integers(0, 10_000, count)

    def theirs() -> bool:
        sketch = datasketches.hll_sketch(12, datasketches.HLL_8)
        feed(sketch.update, members)
        return bool(sketch.get_lower_bound(3) <= count <= sketch.get_upper_bound(3))

    def ours(given: Any) -> bool:
        sketch = Distinct(12)
        for batch in batches(given):
            sketch.add_many(batch)
        found = sketch.estimate()
        return abs(found.value / count - 1) < 0.05

    def many() -> bool:
        sketch = DistinctMany(12)
        for start in range(0, count, BATCH):
            sketch.add_many(rows[start : start + BATCH], members[start : start + BATCH])
        return abs(sketch.sketch(0).estimate().value - int(np.count_nonzero(rows == 0))) < 10

    return [
        Contestant("hll_sketch.update", lambda: timed(count, theirs)),
        Contestant("Distinct, list", lambda: timed(count, partial(ours, members))),
        Contestant("Distinct, Arrow column", lambda: timed(count, partial(ours, column))),
        Contestant("DistinctMany, 10 000 rows", lambda: timed(count, many)),
    ]


def key_contestants(count: int) -> list[Contestant]:
    keys = skewed_keys(count)
    column, truth = pa.array(keys), Counter(keys)
    numbers = np.array([int(key.partition("#")[2]) for key in keys])
    first, most = truth.most_common(1)[0]

    def near(value: float) -> bool:
        return most <= value <= most + ERROR * count

    def count_min() -> bool:
        sketch = datasketches.count_min_sketch(6, 2719)
        feed(sketch.update, keys)
        return near(sketch.get_estimate(first))

    def frequency() -> bool:
        sketch = Frequency.for_error(ERROR)
        for batch in batches(keys):
            sketch.add_many(batch)
        return near(sketch.estimate(first).value)

    def frequent_strings() -> bool:
        sketch = datasketches.frequent_strings_sketch(12)
        feed(sketch.update, keys)
        return near(sketch.get_estimate(first))

    def heavy(given: Any) -> bool:
        sketch = Heavy.for_error(ERROR)
        for batch in batches(given):
            sketch.add_many(batch)
        return near(sketch.top(1)[0].count)

    def morris() -> bool:
        sketch = Morris.for_error(0.25, 50_000)
        for start in range(0, count, BATCH):
            part = numbers[start : start + BATCH]
            sketch.add_many(part, partition=0, offsets=np.arange(start, start + len(part)))
        return bool(abs(sketch.estimates().sum() / count - 1) < 0.5)

    return [
        Contestant("count_min_sketch.update", lambda: timed(count, count_min)),
        Contestant("Frequency, list", lambda: timed(count, frequency)),
        Contestant("frequent_strings_sketch.update", lambda: timed(count, frequent_strings)),
        Contestant("Heavy, list", lambda: timed(count, partial(heavy, keys))),
        Contestant("Heavy, Arrow column", lambda: timed(count, partial(heavy, column))),
        Contestant("Morris, numbers", lambda: timed(count, morris)),
    ]


def resident_bytes() -> int:
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()


def measure_memory(kind: str, members: int) -> float:
    """Resident bytes per sketch of this many members, in this process, which must be fresh."""
    texts = [f"user-{number}" for number in range(members * 7)]
    kept: list[Any] = []
    many = DistinctMany(12)
    Distinct(12).add_many(texts)
    DistinctMany(12).add_many(np.arange(len(texts)), texts)
    before = resident_bytes()
    sketches = max(5000, MEMBERS_AT_LEAST // members)
    for number in range(sketches):
        mine = texts[number % 7 * members : (number % 7 + 1) * members]
        if kind == "hll_sketch":
            sketch = datasketches.hll_sketch(12, datasketches.HLL_8)
            feed(sketch.update, mine)
            kept.append(sketch)
        elif kind == "Distinct":
            one = Distinct(12)
            one.add_many(mine)
            kept.append(one)
        elif number % 100 == 0:
            rows = np.repeat(np.arange(number, number + 100), members)
            many.add_many(rows, mine * 100)
    return (resident_bytes() - before) / sketches


def memory_table() -> dict[str, dict[int, float]]:
    figures: dict[str, dict[int, float]] = {}
    for kind in ("hll_sketch", "Distinct", "DistinctMany"):
        figures[kind] = {}
        for members in SIZES:
            command = [sys.executable, "-m", "benchmarks.sketches", "--memory", kind, str(members)]
            answer = subprocess.run(
                command, capture_output=True, text=True, check=True, timeout=300
            )
            figures[kind][members] = float(answer.stdout)
    print("\nResident bytes per sketch of precision 12, by its members")
    print(f"  {'':<16}" + "".join(f"{members:>10}" for members in SIZES))
    for kind, row in figures.items():
        print(f"  {kind:<16}" + "".join(f"{row[members]:>10,.0f}" for members in SIZES))
    return figures


def size_table(count: int) -> dict[str, dict[str, float]]:
    """What frequency and heavy sketches take, by their error, with these many skewed keys."""
    keys, figures = skewed_keys(count), {}
    print(f"\nBytes by error, with {count:,} keys by Zipf's law")
    names = ("counters", "in memory", "empty", "serialized", "keys kept", "serialized", "missed")
    print(f"  {'':<8}" + "".join(f"{name:>12}" for name in names))
    for error in (0.01, 0.001, 0.0001):
        frequency, heavy = Frequency.for_error(error), Heavy.for_error(error)
        row: dict[str, float] = {"counters": frequency.rows * frequency.width}
        row["frequency_bytes"] = sum(table.nbytes for table in frequency.counters()) / 2
        row["frequency_empty"] = len(frequency.to_bytes())
        frequency.add_many(keys)
        heavy.add_many(keys)
        row["frequency_serialized"] = len(frequency.to_bytes())
        row["heavy_keys"] = heavy.capacity
        row["heavy_serialized"] = len(heavy.to_bytes())
        row["heavy_missed"] = heavy.missed_max / count
        figures[str(error)] = row
        whole = "".join(f"{value:>12,.0f}" for value in list(row.values())[:-1])
        print(f"  {error:<8}{whole}{row['heavy_missed']:>12.4%}")
    return figures


def distinct_errors(trials: int = 200) -> dict[str, float]:
    """Relative errors (root mean square) with the same members in the same order."""
    off: dict[str, list[float]] = {}
    for members in (100, 3000, 20_000):
        for seed in range(trials if members < 20_000 else trials // 4):
            texts = [f"{seed}/{number}" for number in range(members)]
            mine = Distinct(12)
            mine.add_many(texts)
            theirs = datasketches.hll_sketch(12, datasketches.HLL_8)
            feed(theirs.update, texts)
            off.setdefault(f"Distinct, {members}", []).append(mine.estimate().value / members - 1)
            ratio = theirs.get_estimate() / members
            off.setdefault(f"hll_sketch, {members}", []).append(ratio - 1)
    return {name: float(np.sqrt(np.mean(np.square(values)))) for name, values in off.items()}


def heavy_errors(count: int) -> dict[str, float]:
    """The widest bounds, as a share of the total, where both keep about as many keys."""
    keys = skewed_keys(count)
    mine = Heavy(768)
    mine.add_many(keys)
    theirs = datasketches.frequent_strings_sketch(10)  # 768 keys at most
    feed(theirs.update, keys)
    key, _, low, high = theirs.get_frequent_items(ALL_ITEMS, 0)[0]
    assert key
    return {
        "Heavy, 768 keys: bounds": mine.missed_max / count,
        "Heavy, 768 keys: promised": 1 / 769,
        "frequent_strings, 768 keys: bounds": (high - low) / count,
        "frequent_strings, 768 keys: promised": theirs.epsilon,
    }


def restarts_that_change_answers(seeds: int = 12) -> dict[str, float]:
    """In how many of the seeds a sketch written and read on the way ends with other answers."""
    differ = {"frequent_strings_sketch": 0, "Heavy": 0}
    for seed in range(seeds):
        chance = np.random.default_rng(seed)
        keys = [f"k{number}" for number in (chance.pareto(0.7, 100_000) * 50).astype(int).tolist()]
        deltas = chance.integers(1, 50, len(keys))
        steady, moved = (datasketches.frequent_strings_sketch(12) for _ in range(2))
        mine, mine_moved = Heavy(1000), Heavy(1000)
        for start in range(0, len(keys), 1777):
            part, weights = keys[start : start + 1777], deltas[start : start + 1777]
            deque(map(steady.update, part, weights.tolist()), maxlen=0)
            deque(map(moved.update, part, weights.tolist()), maxlen=0)
            moved = datasketches.frequent_strings_sketch.deserialize(moved.serialize())
            mine.add_many(part, weights)
            mine_moved.add_many(part, weights)
            mine_moved = Heavy.from_bytes(mine_moved.to_bytes())
        answers = [sorted(one.get_frequent_items(ALL_ITEMS, 0)) for one in (steady, moved)]
        differ["frequent_strings_sketch"] += answers[0] != answers[1]
        differ["Heavy"] += mine.to_bytes() != mine_moved.to_bytes()
    return {f"{name}: restarts change it": value / seeds for name, value in differ.items()}


def main() -> None:
    options = parser(__doc__, events=200_000, rounds=5)
    options.add_argument("--memory", nargs=2, metavar=("KIND", "MEMBERS"), help=argparse.SUPPRESS)
    given = options.parse_args()
    if given.memory:
        print(measure_memory(given.memory[0], int(given.memory[1])))
        return
    document: dict[str, Any] = {}
    for title, contestants in (
        ("Distinct members, all different", distinct_contestants(given.events)),
        ("Keys by Zipf's law", key_contestants(given.events)),
    ):
        compete(contestants, given.rounds)
        print_rates(title, "item", contestants, contestants[:1])
        document[title] = rates_document(contestants)
    document["memory"] = memory_table()
    document["sizes"] = size_table(given.events)
    document["errors"] = {
        **distinct_errors(),
        **heavy_errors(given.events),
        **restarts_that_change_answers(),
    }
    print("\nHow far off, as a share")
    for name, share in document["errors"].items():
        print(f"  {name:<44}{share:>10.3%}")
    write_figures(given.json, "sketches", document)


if __name__ == "__main__":
    main()
