"""The arithmetic for one rate, told step by step with its numbers. Pure."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

from benchmarks._scale_model import GIB, MILLION, MINUTE_S, broker_costs

if TYPE_CHECKING:
    from benchmarks._scale_inputs import Inputs
    from benchmarks._scale_model import Need

WIDTH = 130

STEPS = (
    """**Cells.** `counters_per_rate` x rate = {counters:,} counters, in {regions:g} regions. A
    counter with r increments/s is touched within t seconds with probability 1 - exp(-r t). Summed
    over Zipf's law with exponent {exponent:g}, regions and the shards of hot counters apart:
    {cells_flush:,.0f} cells in each flush of {flush_interval:g} s, {cells_minute:,.0f} in each
    minute.""",
    """**Workers.** {millions:g} million/s x {worker_s:g} CPU s (`worker_*`) + {cells_millions:.3f}
    million cells/s x {flush_worker_s:g} (`flush_worker_*`) = {worker_busy:.2f} cores busy;
    x {skew:g} (`skew`) / {utilisation:g} (`utilisation`) = {workers} workers of one core.""",
    """**Partitions.** The power of two that is at least twice the workers, and at least 8:
    {partitions:,}.""",
    """**Memory of workers.** {cells_minute:,.0f} cells x {live_slots:g} (`live_slots`) x
    {cell_memory:g} bytes (`cell_memory`) = {cells_gib:.1f} GiB, and {worker_gib:g} GiB for each
    worker: {workers_gib:.1f} GiB.""",
    """**The log.** {rate:,.0f} x {bytes_each:g} bytes (`log_bytes_*`) = {log_mb:,.1f} MB/s;
    x 86,400 s x {log_days:g} days x {replication:g} copies = {log_tib:,.1f} TiB.""",
    """**Brokers.** The two sizes measured make {write_record:.2f} CPU s per million records +
    {write_gb:.2f} per GB for a write, {read_record:.2f} + {read_gb:.2f} for a read.
    {record_millions:.3g} million records/s and {log_gb:.3g} GB/s, {replication:g} writes and one
    read: {broker_busy:.2f} cores busy; / {utilisation:g} = {broker_planned:.1f} cores. Of that (by
    {broker_cores:g} cores), of the network, of the partitions on a broker and of the copies,
    whatever needs most: {brokers} brokers.""",
    """**Flushes.** {cells_millions:.3f} million cells/s x {flush_s:g} CPU s (`flush_members`,
    or `flush_cells` without members) + {flushes:g} flushes/s x {flush_fixed:g} ms (`flush_fixed`) =
    {flush_busy:.2f} cores busy.""",
    """**Rollups.** {new_millions:.3f} million new cells/s x {rollup:g} s (`rollup`) x
    {rollup_passes:g} passes = {rollup_busy:.2f} cores busy.""",
    """**ClickHouse.** ({flush_busy:.2f} + {rollup_busy:.2f}) / {utilisation:g} =
    {clickhouse_planned:.1f} cores, x {clickhouse_copies:g} copies = {clickhouse_all:.1f}. A node
    has {clickhouse_cores:g} cores and takes {clickhouse_flushes:g} flushes/s; whichever needs more
    nodes, before copies: {clusters} (see Clusters above).""",
    """**Its disk.** Cells of a minute x 1,440 x {minute_days:g} days x {cell_bytes_1m:g} bytes, of
    an hour x 24 x {hour_days:g} and of a day x {day_days:g} x {cell_bytes_1h:g} bytes, all
    x {clickhouse_copies:g} copies = {clickhouse_tib:.2f} TiB.""",
    """**Web.** {rate:,.0f} x {reads_per_increment:g} = {reads:,.0f} cached reads/s /
    {web_reads:,.0f} (`web_reads`) / {utilisation:g} = {web} processes of one core.""",
    """**Producers.** {millions:g} million/s x {client_s:g} CPU s (`client_*`) =
    {client_busy:.2f} cores, in your own programs; not in the price.""",
    """**Price.** Cores x {core_price:g} + GiB x {gib_price:g} + TiB x {tib_price:g}: workers
    {workers_price:,.0f}, brokers {brokers_price:,.0f}, ClickHouse {clickhouse_price:,.0f}, web
    {web_price:,.0f}; in all {price:,.0f} a month.""",
)


def steps(inputs: Inputs, one: Need) -> str:
    """A numbered list; each step has its inputs by name, its numbers, and what they make."""
    numbers = _numbers(inputs, one)
    lines = []
    for number, step in enumerate(STEPS, 1):
        told = " ".join(step.format_map(numbers).split())
        indent = " " * len(f"{number}. ")
        lines.append(
            textwrap.fill(
                f"{number}. {told}",
                WIDTH,
                subsequent_indent=indent,
                break_long_words=False,
                break_on_hyphens=False,
            )
        )
    return "\n".join(lines)


def _numbers(inputs: Inputs, one: Need) -> dict[str, float]:
    """Every input by its name, and what was computed."""
    named = {
        name: getattr(part, name).value
        for part in (inputs.measured, inputs.assumed)
        for name in part.__struct_fields__
    }
    write_record, write_gb, read_record, read_gb = broker_costs(inputs)
    planned = named["utilisation"]
    live_bytes = one.cells_minute * named["live_slots"] * named["cell_memory"]
    return named | {
        "rate": one.rate,
        "millions": one.rate / MILLION,
        "counters": one.counters,
        "cells_flush": one.cells_second * named["flush_interval"],
        "cells_millions": one.cells_second / MILLION,
        "cells_minute": one.cells_minute,
        "new_millions": one.cells_minute / MINUTE_S / MILLION,
        "cells_gib": live_bytes / GIB,
        "worker_s": inputs.worker_cpu_s(one.sending),
        "worker_busy": one.worker_busy,
        "workers": one.workers.machines,
        "workers_gib": one.workers.memory_gib,
        "partitions": one.partitions,
        "bytes_each": inputs.log_bytes(one.sending),
        "log_mb": one.log_bytes / 1e6,
        "log_gb": one.log_bytes / 1e9,
        "log_tib": one.brokers.disk_tib,
        "record_millions": one.records / MILLION,
        "write_record": write_record,
        "write_gb": write_gb,
        "read_record": read_record,
        "read_gb": read_gb,
        "broker_busy": one.broker_busy,
        "broker_planned": one.broker_busy / planned,
        "brokers": one.brokers.machines,
        "flush_worker_s": inputs.flush_worker_s(one.sending),
        "flush_s": inputs.flush_s(one.sending),
        "flushes": one.flushes,
        "flush_busy": one.clickhouse_flush_busy,
        "rollup_busy": one.clickhouse_rollup_busy,
        "clickhouse_planned": one.clickhouse_busy / planned,
        "clickhouse_all": one.clickhouse.cores,
        "clickhouse_tib": one.clickhouse.disk_tib,
        "clusters": one.clusters,
        "reads": one.reads,
        "web": one.web.machines,
        "client_s": inputs.client_cpu_s(one.sending),
        "client_busy": one.client_busy,
        "workers_price": one.workers.price,
        "brokers_price": one.brokers.price,
        "clickhouse_price": one.clickhouse.price,
        "web_price": one.web.price,
        "price": one.price,
    }
