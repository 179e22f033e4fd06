"""What things cost, as docs/ has it measured. Tests hold each figure against the page it names."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Figure:
    """One cost in words; `source` is where it was measured, with the command beside it."""

    text: str
    source: str


CELL_MEMORY_BYTES = 252
CELL_DISK_BYTES = 21
WORKER_JSON_S = 2.3
WORKER_FRAMES_S = 1.75
FLUSH_CELLS_S = 2.8
FLUSH_MEMBERS_S = 18.1
STRICT_PER_S = 1565
"""These are of docs/benchmarks/scale_inputs.toml, which names the command of each."""

CELLS = Figure(
    f"a counter that changes within a minute is a cell of each region: {CELL_MEMORY_BYTES} bytes in"
    f" a worker while it is open, {CELL_DISK_BYTES} bytes in ClickHouse",
    "docs/scale.md",
)
COUNTING = Figure(
    f"a worker takes {WORKER_JSON_S} s of a core for a million increments as JSON,"
    f" {WORKER_FRAMES_S} s as frames",
    "docs/scale.md",
)
SKETCHES = Figure(
    "at most 8 160 rows a shard, region and minute, however many counters there are; a bound is"
    " off by at most 0.2 % of everything counted",
    "docs/sketches/sketched-families.md",
)
MANY_CELLS = Figure(
    "past cells_max a counter is estimated as in a sketched family until the slot is over: the"
    " sum stays exact",
    "docs/rules.md",
)
IDS = Figure(
    "an id costs about 310 bytes of memory while it is remembered, and a record in the changelog",
    "docs/rules.md",
)
UNIQUES = Figure(
    f"registers of members are most of a flush: {FLUSH_MEMBERS_S} s of ClickHouse's cores for a"
    f" million cells instead of {FLUSH_CELLS_S} s; a window has 4 096 bytes at most",
    "docs/scale.md, docs/sketches/distinct.md",
)
MEMBERS_EXACT = Figure(
    "52 bytes of memory and 24 bytes of changelog for each pair of member and counter, for ever",
    "docs/once-per-member.md",
)
MEMBERS_FILTER = Figure(
    "11 bytes of memory and 8 bytes of changelog for each pair of member and counter, for ever",
    "docs/once-per-member.md",
)
STRICT = Figure(
    f"a decision is two confirmed writes: {STRICT_PER_S:,} a second by one worker and one web"
    " process on two cores, where plain increments are hundreds of thousands",
    "docs/strict.md",
)
SHARDS = Figure(
    "each shard of a counter is one more cell for each region and minute, flushed and read",
    "docs/sharding.md",
)
TRENDS = Figure(
    "one worker, the leader, scores the family's minutes in ClickHouse about every ten seconds",
    "docs/trends.md",
)
