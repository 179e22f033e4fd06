"""What counting costs without Kafka: the decoder and the cells, beside plain Python.

Run: python -m benchmarks.core [--events N] [--cells N] [--rounds N] [--json FILE]
     [--profile [json|frames|absorb]]
"""

from __future__ import annotations

import cProfile
import json
import pstats
import statistics
import subprocess
import sys
import time
from functools import partial
from typing import Any

import numpy as np

from benchmarks._counting import absorb, decode_and_absorb
from benchmarks._events import SEED, WINDOW_MS, CellName, Event, make_events, truth
from benchmarks._frames import as_frames
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
from pipeline.decode import Decoded, decode
from pipeline.shard import Shard
from schemas.frames import FRAME_CONTENT_TYPE
from schemas.records import Headers, Records

START_MS = 1_790_000_400_000
RECORDS_PER_FETCH = 10_000
EVENTS_PER_FRAME = 5_000
FRAMES_PER_FETCH = 2
FRAME_HEADERS: Headers = (("content-type", FRAME_CONTENT_TYPE.encode()),)
PLAIN_CELLS_DIVISOR = 4  # a power of two leaves a dict exactly as full as it was, so comparable


def as_fetches(values: list[bytes], headers: Headers, at_once: int) -> list[Records]:
    """Consecutive fetches of one partition, with log times that follow the events'."""
    fetches = []
    for start in range(0, len(values), at_once):
        part = values[start : start + at_once]
        offsets = np.arange(start, start + len(part), dtype=np.int64)
        times = np.full(len(part), START_MS, np.int64)
        keys: list[bytes | None] = [None] * len(part)
        fetches.append(Records(0, offsets, times, keys, list(part), [headers] * len(part)))
    return fetches


def count_fetches(fetches: list[Records]) -> Shard:
    shard = Shard(0)
    for records in fetches:
        decode_and_absorb(shard, records)
    return shard


def count_decoded(fetches: list[tuple[Records, Decoded]]) -> Shard:
    shard = Shard(0)
    for records, decoded in fetches:
        absorb(shard, records, decoded)
    return shard


def count_by_hand(values: list[bytes]) -> dict[CellName, int]:
    """What people write first: a loop, json.loads and a dict."""
    counts: dict[CellName, int] = {}
    for value in values:
        event = json.loads(value)
        at = event["at"]
        key = (event["counter"], event["region"], at - at % WINDOW_MS)
        counts[key] = counts.get(key, 0) + event["delta"]
    return counts


def counts_of(shard: Shard) -> dict[CellName, int]:
    """The net count of each cell, over all slots."""
    counts: dict[CellName, int] = {}
    for slot in shard.slots.values():
        values = slot.values()
        for text, net in zip(values.keys, (values.p - values.n).tolist(), strict=True):
            key = CellKey.parse(text)
            name = (key.counter, key.region, key.window_ms)
            counts[name] = counts.get(name, 0) + net
    return counts


def contestants(events: list[Event]) -> list[Contestant]:
    values = [event.as_json() for event in events]
    fetches = as_fetches(values, (), RECORDS_PER_FETCH)
    frames = as_fetches(as_frames(events, EVENTS_PER_FRAME), FRAME_HEADERS, FRAMES_PER_FETCH)
    decoded = [(records, decode(records)) for records in fetches]
    expected = truth(events)

    def timed(work: Any, given: object) -> Outcome:
        # Of this process alone, all its threads together: others on the machine do not count.
        started = time.process_time()
        made = work(given)
        seconds = time.process_time() - started
        answer = counts_of(made) if isinstance(made, Shard) else made
        return Outcome(len(events), seconds, answer, expected)

    return [
        Contestant("decode + absorb, JSON", partial(timed, count_fetches, fetches)),
        Contestant("decode + absorb, frames", partial(timed, count_fetches, frames)),
        Contestant("absorb alone", partial(timed, count_decoded, decoded)),
        Contestant("json.loads + dict", partial(timed, count_by_hand, values)),
    ]


def measure_cells(cells: int, rounds: int) -> dict[str, dict[str, list[float]]]:
    """Per live cell and round: bytes, and seconds of each step; a fresh process each time."""
    sizes = {"tally": cells, "plain": cells // PLAIN_CELLS_DIVISOR, "ids": cells // 2}
    figures: dict[str, dict[str, list[float]]] = {kind: {} for kind in sizes}
    for _ in range(rounds):
        for kind, size in sizes.items():
            command = [sys.executable, "-m", "benchmarks._cells", kind, str(size)]
            done = subprocess.run(command, check=True, capture_output=True, timeout=300)
            for name, value in json.loads(done.stdout).items():
                per_cell = value / size if name.endswith("_s") else value
                figures[kind].setdefault(name, []).append(per_cell)
    return figures


def print_cells(cells: int, figures: dict[str, dict[str, list[float]]]) -> None:
    print(f"\nOne live cell, of {cells:,}; by hand: a dict, JSON for the changelog")
    print(f"  {'':<34}{'Tally':>12}{'by hand':>12}{'by hand / Tally':>18}")
    labels = {
        "bytes": ("memory, bytes", 1.0),
        "snapshot_s": ("snapshot for both purposes, us", 1e6),
        "encode_s": ("changelog encoding, us", 1e6),
        "recover_s": ("recovery, us", 1e6),
    }
    for name, (label, factor) in labels.items():
        ours = statistics.mean(figures["tally"][name]) * factor
        theirs = statistics.mean(figures["plain"][name]) * factor
        print(f"  {label:<34}{ours:>12.2f}{theirs:>12.2f}{theirs / ours:>18.2f}")
    print(f"\nOne remembered id: {statistics.mean(figures['ids']['bytes']):.0f} bytes")


def print_profile(events: list[Event], path: str) -> None:
    """A path's 25 most expensive functions, by their own time, after a warm-up."""
    fetches = as_fetches([event.as_json() for event in events], (), RECORDS_PER_FETCH)
    work: Any = count_fetches
    given: Any = fetches
    if path == "frames":
        frames = as_frames(events, EVENTS_PER_FRAME)
        given = as_fetches(frames, FRAME_HEADERS, FRAMES_PER_FETCH)
    elif path == "absorb":
        work, given = count_decoded, [(records, decode(records)) for records in fetches]
    work(given)
    profile = cProfile.Profile()
    profile.runcall(work, given)
    pstats.Stats(profile).sort_stats("tottime").print_stats(25)


def main() -> None:
    options = parser(__doc__, events=400_000, rounds=5)
    options.add_argument("--cells", type=int, default=1_000_000, help="default 1000000; 0 for none")
    options.add_argument(
        "--profile",
        nargs="?",
        const="json",
        choices=("json", "frames", "absorb"),
        help="profile one path instead; json unless another is named",
    )
    chosen = options.parse_args()
    events = make_events(chosen.events, START_MS)
    if chosen.profile:
        print_profile(events, chosen.profile)
        return
    competing = contestants(events)
    compete(competing, chosen.rounds)
    size = statistics.mean(len(event.as_json()) for event in events[:1000])
    cells = len(truth(events))
    title = f"{len(events):,} events of {size:.0f} bytes in {cells:,} cells, seed {SEED}"
    print_rates(title, "event", competing, [competing[-1]])
    figures: dict[str, Any] = {"events": len(events), "rates": rates_document(competing)}
    if chosen.cells:
        figures["per_cell"] = measure_cells(chosen.cells, rounds=2)
        print_cells(chosen.cells, figures["per_cell"])
    write_json(chosen.json, "core", figures)


if __name__ == "__main__":
    main()
