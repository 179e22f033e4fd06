"""What counting once per member costs: beside the same family without it, and beside ids.

Run: python -m benchmarks.once [--events N] [--members N] [--rounds N] [--json FILE]
"""

from __future__ import annotations

import json
import random
import statistics
import subprocess
import sys
import time
from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from benchmarks._counting import decode_and_absorb
from benchmarks._kit import (
    Contestant,
    Outcome,
    compete,
    parser,
    print_rates,
    rates_document,
    write_json,
)
from pipeline.cells import CellKey
from pipeline.once.members import MemberKeys
from pipeline.rules import CountingRules, FamilyRules
from pipeline.shard import Shard
from schemas.frames import FRAME_CONTENT_TYPE, frame_bytes
from schemas.records import Headers, Records

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

START_MS = 1_790_000_400_000
SEED = 7
POSTS = 1_000
ROWS_PER_FRAME = 10_000
FRAME_HEADERS: Headers = (("content-type", FRAME_CONTENT_TYPE.encode()),)
FORMS = {
    "plain": FamilyRules(),
    "plain, each with an id": FamilyRules(),
    "once per member, exact": FamilyRules(once_per_member=True),
    "once per member, error 0.001": FamilyRules(once_per_member=True, once_per_error=0.001),
}

Like = tuple[str, str]


def make_likes(count: int) -> list[Like]:
    """Every second one is a repeat, about, of anybody's like before it."""
    chance = random.Random(SEED)
    likes: list[Like] = []
    for number in range(count):
        if likes and chance.random() < 0.5:
            likes.append(chance.choice(likes))
        else:
            likes.append((f"likes:post-{chance.randrange(POSTS)}", f"person-{number}"))
    return likes


def as_fetches(likes: Sequence[Like], *, ids: bool) -> Iterator[Records]:
    """Frames, one to a fetch."""
    for offset, start in enumerate(range(0, len(likes), ROWS_PER_FRAME)):
        counters, members = zip(*likes[start : start + ROWS_PER_FRAME], strict=True)
        columns: dict[str, Any] = {
            "counter": pa.array(counters).dictionary_encode(),
            "at": np.full(len(counters), START_MS),
            "member": pa.array(members),
        }
        if ids:
            columns["id"] = pa.array([f"{start + row:032x}" for row in range(len(counters))])
        value = frame_bytes(pa.record_batch(columns))
        times = np.full(1, START_MS, np.int64)
        offsets = np.array([offset], np.int64)
        yield Records(0, offsets, times, [None], [value], [FRAME_HEADERS])


def count(rules: CountingRules, fetches: Sequence[Records]) -> Shard:
    """All fetches into a new shard."""
    shard = Shard(0, rules=rules)
    for records in fetches:
        decode_and_absorb(shard, records)
        # As a checkpoint does, without its writing.
        shard.members.confirm(shard.members.snapshot(shard.position), MemberKeys([], {}))
    return shard


def totals(shard: Shard) -> Counter[str]:
    """What was counted of each counter."""
    found: Counter[str] = Counter()
    for slot in shard.slots.values():
        values = slot.values()
        for key, p in zip(values.keys, values.p.tolist(), strict=True):
            found[CellKey.parse(key).counter] += p
    return found


def contestants(likes: Sequence[Like]) -> list[Contestant]:
    """Each form with its own frames; a filter may err, so of it only the bound is checked."""
    everything, once = Counter(c for c, _ in likes), Counter(c for c, _ in set(likes))

    def timed(rules: CountingRules, fetches: Sequence[Records]) -> Outcome:
        started = time.process_time()
        shard = count(rules, fetches)
        seconds = time.process_time() - started
        found, family = totals(shard), rules.of("likes:")
        expected = once if family.once_per_member else everything
        if family.once_per_error:
            lost = expected.total() - found.total()
            assert 0 <= lost <= 1.5 * family.once_per_error * expected.total()
            expected = found
        return Outcome(len(likes), seconds, found, expected)

    made = []
    for name, family in FORMS.items():
        fetches = list(as_fetches(likes, ids=name.endswith("id")))
        rules = CountingRules(1, families={"likes": family})
        made.append(Contestant(name, partial(timed, rules, fetches)))
    return made


def measure_members(members: int) -> dict[str, dict[str, float]]:
    """Per member: memory, changelog and recovery of both forms, in a process of its own each."""
    figures = {}
    for form in ("exact", "filter"):
        command = [sys.executable, "-m", "benchmarks._once_members", form, str(members)]
        done = subprocess.run(command, check=True, capture_output=True, timeout=600)
        figures[form] = json.loads(done.stdout)
    return figures


def main() -> None:
    options = parser(__doc__, events=400_000, rounds=5)
    options.add_argument("--members", type=int, default=2_000_000, help="default 2000000")
    chosen = options.parse_args()
    likes = make_likes(chosen.events)
    competing = contestants(likes)
    compete(competing, chosen.rounds)
    title = f"{len(likes):,} likes in frames, {len(set(likes)):,} of them first ones, seed {SEED}"
    print_rates(title, "like", competing, [competing[0]])
    figures: dict[str, Any] = {"rates": rates_document(competing)}
    figures["per_member"] = measure_members(chosen.members)
    print(f"\nOne member, of {chosen.members:,}")
    for form, found in figures["per_member"].items():
        shown = ", ".join(f"{name} {value:.2f}" for name, value in found.items())
        print(f"  {form:<10}{shown}")
    spread = statistics.mean(one.spread for one in competing)
    print(f"  (spread of the rounds above: {spread:.0%})")
    write_json(chosen.json, "once", figures)


if __name__ == "__main__":
    main()
