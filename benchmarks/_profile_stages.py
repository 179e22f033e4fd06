"""To which stage of a worker a stack belongs. Pure.

A stack is looked through from where it stands outwards, and the first module with a stage decides.
Modules that serve several stages have none of their own: their caller decides.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

FETCH = "network: sockets, fetches"
PARSE = "fetch: record batches to records"
DECODE = "decode: records to columns"
COUNT = "count: columns to cells"
MEMBERS = "count: members and sketches"
FLUSH = "flush to ClickHouse"
CHANGELOG = "checkpoint: changelog, commit"
LEADER = "leader's and strict counters' duties"
LOOP = "event loop, Faust"
START = "start, recovery"
NATIVE = "threads without Python"
OTHER = "other"

STAGES = (
    FETCH,
    PARSE,
    DECODE,
    COUNT,
    MEMBERS,
    FLUSH,
    CHANGELOG,
    LEADER,
    LOOP,
    START,
    NATIVE,
    OTHER,
)

CALLER = "caller"
"""Instead of a stage: whoever called decides."""

STAGE_OF_MODULE = {
    "aiokafka": FETCH,
    "aiokafka.producer": CHANGELOG,
    "aiokafka.record": PARSE,
    "asyncio": LOOP,
    "asyncio.selector_events": FETCH,
    "asyncio.streams": FETCH,
    "faust": LOOP,
    "mode": LOOP,
    "selectors": LOOP,
    "uvloop": LOOP,
    "benchmarks": OTHER,
    "pipeline.absorb": COUNT,
    "pipeline.adjustments": COUNT,
    "pipeline.assignor": START,
    "pipeline.builds": LEADER,
    "pipeline.bulk": PARSE,
    "pipeline.bounded_codecs": PARSE,
    "pipeline.bounded_headers": PARSE,
    "pipeline.caps": COUNT,
    "pipeline.cell_groups": COUNT,
    "pipeline.cell_keys": CALLER,
    "pipeline.cell_names": FLUSH,
    "pipeline.cells": CALLER,
    "pipeline.changelog": CHANGELOG,
    "pipeline.changelog_writer": CHANGELOG,
    "pipeline.checkpoint": CHANGELOG,
    "pipeline.clickhouse": CALLER,
    "pipeline.cluster_client": CALLER,
    "pipeline.columnar": COUNT,
    "pipeline.control": LEADER,
    "pipeline.counter_numbers": COUNT,
    "pipeline.dead_letters": DECODE,
    "pipeline.decode": DECODE,
    "pipeline.decode_json": DECODE,
    "pipeline.distinct": MEMBERS,
    "pipeline.draining": PARSE,
    "pipeline.errors": CALLER,
    "pipeline.faults": CALLER,
    "pipeline.fenced_commits": CHANGELOG,
    "pipeline.fetch_bounds": PARSE,
    "pipeline.fetches": PARSE,
    "pipeline.first_rules": START,
    "pipeline.flushed_check": FLUSH,
    "pipeline.found_records": PARSE,
    "pipeline.garbage": START,
    "pipeline.group": CHANGELOG,
    "pipeline.groupless": LEADER,
    "pipeline.ids": COUNT,
    "pipeline.kafka_clients": CALLER,
    "pipeline.kafka_refusals": CALLER,
    "pipeline.kept_batches": PARSE,
    "pipeline.known_registers": MEMBERS,
    "pipeline.lanes": DECODE,
    "pipeline.leader": LEADER,
    "pipeline.leaving": LEADER,
    "pipeline.ledger": COUNT,
    "pipeline.log_check": START,
    "pipeline.metrics": CALLER,
    "pipeline.native": CALLER,
    "pipeline.old_batches": PARSE,
    "pipeline.once": MEMBERS,
    "pipeline.partition_reader": LEADER,
    "pipeline.placing": COUNT,
    "pipeline.plain_records": PARSE,
    "pipeline.planning": LEADER,
    "pipeline.prompt": START,
    "pipeline.reads": LEADER,
    "pipeline.reason_kinds": DECODE,
    "pipeline.reconcile": LEADER,
    "pipeline.record_batches": PARSE,
    "pipeline.recovery": START,
    "pipeline.refused": DECODE,
    "pipeline.registers_of": MEMBERS,
    "pipeline.rollup": LEADER,
    "pipeline.rules": COUNT,
    "pipeline.run_worker": START,
    "pipeline.shard": CALLER,
    "pipeline.sharding": COUNT,
    "pipeline.sketch_rows": MEMBERS,
    "pipeline.sketched": MEMBERS,
    "pipeline.slots": CALLER,
    "pipeline.store": START,
    "pipeline.strict": LEADER,
    "pipeline.summaries": MEMBERS,
    "pipeline.takeover": START,
    "pipeline.tls": CALLER,
    "pipeline.topics": CALLER,
    "pipeline.topology": LOOP,
    "pipeline.trends": LEADER,
    "pipeline.watchdog": LEADER,
    "pipeline.whole_answers": CALLER,
    "pipeline.why_refused": DECODE,
    "pipeline.worker": COUNT,
    "pipeline.writes": FLUSH,
    "schemas": CALLER,
    "schemas.events": DECODE,
    "schemas.frame_columns": DECODE,
    "schemas.frames": DECODE,
    "sketches": MEMBERS,
    "sketches.hashing": CALLER,
}
"""By a module's name or how it begins; the longest that fits decides."""


def stage_of(modules: Iterable[str]) -> str:
    """The stage of a stack, whose modules are given from where it stands outwards."""
    for module in modules:
        if (stage := entry_of(module)) is not None and stage != CALLER:
            return stage
    return OTHER


@cache
def entry_of(module: str) -> str | None:
    """What STAGE_OF_MODULE says about a module; None if it does not know it."""
    while module:
        if module in STAGE_OF_MODULE:
            return STAGE_OF_MODULE[module]
        module = module.rpartition(".")[0]
    return None
