"""What live cells cost, measured in a process of its own: memory, snapshot, encoding, recovery.

Run by benchmarks.core as `python -m benchmarks._cells tally|plain|ids N`; prints one JSON document.
`plain` is what people write by hand: a dict of tuples, saved as one JSON key and value per count.
"""

from __future__ import annotations

import gc
import json
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from benchmarks._counting import absorb, encode, recover
from pipeline.decode import COLUMNS, Decoded
from pipeline.ids import Occurrence, SeenIds, id_key
from pipeline.rules import CountingRules
from pipeline.shard import Shard
from schemas.records import Records

if TYPE_CHECKING:
    from collections.abc import Sequence

START_MS = 1_790_000_400_000
ROWS_PER_FETCH = 10_000
FRAME_ROWS = 50

PlainCounts = dict[tuple[str, str, int], tuple[int, int, int]]


def resident_bytes() -> int:
    """What this process holds in memory now."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def fill_shard(cells: int) -> Shard:
    """A shard with so many live cells, one increment in each."""
    shard = Shard(0)
    for start in range(0, cells, ROWS_PER_FETCH):
        count = min(ROWS_PER_FETCH, cells - start)
        offsets = np.arange(start, start + count, dtype=np.int64)
        times = np.full(count, START_MS, np.int64)
        columns = pa.table(
            [
                pa.array([f"likes:post-{number}" for number in range(start, start + count)]),
                pa.array(np.ones(count, np.int64)),
                pa.array(times),
                pa.nulls(count, pa.string()),
                pa.array(["eu"] * count),
                pa.nulls(count, pa.string()),
                pa.array(offsets),
                pa.array(np.zeros(count, np.int32)),
                pa.array(times),
            ],
            schema=COLUMNS,
        )
        values = [b""] * count  # were decoded already
        absorb(shard, _as_fetch([None] * count, values, start), Decoded(columns, [], [], {}))
    return shard


def measure_tally(cells: int) -> dict[str, float]:
    fill_shard(ROWS_PER_FETCH)  # imports and pools are not what a cell costs
    gc.collect()
    before = resident_bytes()
    shard = fill_shard(cells)
    gc.collect()
    held = resident_bytes() - before
    started = time.perf_counter()
    snapshot = shard.snapshot(checkpoint=True)
    snapped = time.perf_counter()
    records = encode(snapshot)
    encoded = time.perf_counter()
    changelog = _as_fetch([key for key, _ in records], [value for _, value in records])
    recovering = time.perf_counter()
    resumed = recover(changelog, snapshot.position)
    ended = time.perf_counter()
    assert shard.live_cells() == resumed.live_cells() == cells
    assert sum(int(slot.values().p.sum()) for slot in resumed.slots.values()) == cells
    return {
        "bytes": held / cells,
        "snapshot_s": snapped - started,
        "encode_s": encoded - snapped,
        "recover_s": ended - recovering,
    }


def _as_fetch(
    keys: Sequence[bytes | None], values: Sequence[bytes | None], start: int = 0
) -> Records:
    count = len(values)
    return Records(
        partition=0,
        offsets=np.arange(start, start + count, dtype=np.int64),
        timestamps_ms=np.full(count, START_MS, np.int64),
        keys=list(keys),
        values=list(values),
        headers=[()] * count,
    )


def fill_plain(cells: int) -> PlainCounts:
    """The same counts in a plain dict."""
    return {(f"likes:post-{number}", "eu", START_MS): (1, 0, number) for number in range(cells)}


def measure_plain(cells: int) -> dict[str, float]:
    fill_plain(ROWS_PER_FETCH)
    gc.collect()
    before = resident_bytes()
    counts = fill_plain(cells)
    gc.collect()
    held = resident_bytes() - before
    started = time.perf_counter()
    snapshot = dict(counts)
    snapped = time.perf_counter()
    records = [(json.dumps(k).encode(), json.dumps(v).encode()) for k, v in snapshot.items()]
    encoded = time.perf_counter()
    recovered = {tuple(json.loads(k)): tuple(json.loads(v)) for k, v in records}
    ended = time.perf_counter()
    assert recovered == counts
    return {
        "bytes": held / cells,
        "snapshot_s": snapped - started,
        "encode_s": encoded - snapped,
        "recover_s": ended - encoded,
    }


def fill_ids(count: int) -> SeenIds:
    """So many ids, each a UUID's 32 digits."""
    seen, rules = SeenIds(), CountingRules(ids_limit=count)
    for number in range(count):
        key = id_key(f"likes:post-{number % 5_000}", f"{number:032x}")
        place = (number // FRAME_ROWS, number % FRAME_ROWS)
        seen.claim(Occurrence(key, *place, START_MS + number), rules.ids_horizon_ms_max, rules)
    return seen


def measure_ids(count: int) -> dict[str, float]:
    fill_ids(ROWS_PER_FETCH)
    gc.collect()
    before = resident_bytes()
    seen = fill_ids(count)
    gc.collect()
    held = resident_bytes() - before
    assert len(seen) == count
    return {"bytes": held / count}


def main() -> None:
    kind, count = sys.argv[1], int(sys.argv[2])
    measures = {"tally": measure_tally, "plain": measure_plain, "ids": measure_ids}
    print(json.dumps(measures[kind](count)))


if __name__ == "__main__":
    main()
