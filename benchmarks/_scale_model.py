"""What so many increments a second need, computed from the inputs. Pure; docs/scale.md tells the
steps in words. Nothing here was run at these sizes: it is arithmetic."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, e
from typing import TYPE_CHECKING

from benchmarks._scale_cells import Load
from schemas.rules import Sketch
from sketches.frequency import ROWS

if TYPE_CHECKING:
    from benchmarks._scale_inputs import Inputs, Sending

PARTITIONS_MIN = 8
BUCKETS = ROWS * ceil(e / Sketch().error)
"""Rows that a sketch has at most for a shard, region and minute, whatever number of counters."""

SHARD_RATE_MAX = 10_000.0
"""The default of TALLY_SHARD_RATE_MAX."""

MINUTE_S, HOUR_S, DAY_S = 60, 3_600, 86_400
MILLION = 1e6
GIB, TIB = 2**30, 2**40


@dataclass(frozen=True, slots=True)
class Tier:
    """What one kind of machine takes in all: how many there are, cores, memory, disk, and price."""

    machines: int
    cores: float
    memory_gib: float
    disk_tib: float
    price: float


@dataclass(frozen=True, slots=True)
class Need:
    """Everything for one rate and one way of sending; rates are by the second.

    `clusters` is how many logs with one ClickHouse each it takes, by ClickHouse's node.
    """

    rate: float
    sending: Sending
    counters: int
    regions: int
    log_bytes: float
    records: float
    partitions: int
    client_busy: float
    worker_busy: float
    broker_busy: float
    flushes: float
    cells_second: float
    cells_minute: float
    clickhouse_busy: float
    clickhouse_flush_busy: float
    clickhouse_rollup_busy: float
    reads: float
    clusters: int
    workers: Tier
    brokers: Tier
    clickhouse: Tier
    web: Tier

    @property
    def tiers(self) -> tuple[Tier, ...]:
        return self.workers, self.brokers, self.clickhouse, self.web

    @property
    def shard_cells_second(self) -> float:
        """Cells that one shard touches in one region within a second."""
        return self.cells_second / self.partitions / self.regions

    @property
    def shard_cells_minute(self) -> float:
        """Cells that one shard opens in all regions in a minute."""
        return self.cells_minute / self.partitions

    @property
    def cores(self) -> float:
        return sum(tier.cores for tier in self.tiers)

    @property
    def price(self) -> float:
        return sum(tier.price for tier in self.tiers)


def need(inputs: Inputs, rate: float, sending: Sending) -> Need:
    """The steps in the order in which the page tells them."""
    seen, given = inputs.measured, inputs.assumed
    planned = given.utilisation.value

    load = Load(
        rate,
        round(rate * given.counters_per_rate.value),
        given.exponent.value,
        round(given.regions.value),
        SHARD_RATE_MAX,
    )
    cells_second = load.touched(given.flush_interval.value) / given.flush_interval.value
    cells_minute = load.touched(MINUTE_S)
    live_cells = cells_minute * given.live_slots.value

    worker_busy = rate / MILLION * inputs.worker_cpu_s(sending)
    worker_busy += cells_second / MILLION * inputs.flush_worker_s(sending)
    workers = ceil(worker_busy * seen.skew.value / planned)
    partitions = max(PARTITIONS_MIN, _power_of_two(2 * workers))

    records, log_bytes = rate * inputs.records(sending), rate * inputs.log_bytes(sending)
    broker_busy = _broker_busy(inputs, records, log_bytes)
    brokers = max(
        ceil(given.replication.value),
        ceil(broker_busy / planned / given.broker_cores.value),
        ceil(_network_mb(inputs, log_bytes) / planned / given.broker_network.value),
        ceil(partitions * given.replication.value / given.broker_replicas.value),
    )

    flushes = workers / given.flush_interval.value
    flush_busy = (
        cells_second / MILLION * inputs.flush_s(sending) + flushes * seen.flush_fixed.value / 1e3
    )
    rollup_busy = cells_minute / MINUTE_S / MILLION * seen.rollup.value * given.rollup_passes.value
    clickhouse_busy = flush_busy + rollup_busy
    clusters = max(
        1,
        ceil(clickhouse_busy / planned / given.clickhouse_cores.value),
        ceil(flushes / given.clickhouse_flushes.value),
    )
    copies = given.clickhouse_copies.value

    reads = rate * given.reads_per_increment.value
    web = max(1, ceil(reads / seen.web_reads.value / planned))
    broker_cores = max(float(brokers), broker_busy / planned)
    clickhouse_cores = copies * max(float(clusters), clickhouse_busy / planned)
    log_tib = log_bytes * DAY_S * given.log_days.value * given.replication.value / TIB
    server_gib = given.server_gib.value
    return Need(
        rate=rate,
        sending=sending,
        counters=load.counters,
        regions=load.regions,
        log_bytes=log_bytes,
        records=records,
        partitions=partitions,
        client_busy=rate / MILLION * inputs.client_cpu_s(sending),
        worker_busy=worker_busy,
        broker_busy=broker_busy,
        flushes=flushes,
        cells_second=cells_second,
        cells_minute=cells_minute,
        clickhouse_busy=clickhouse_busy,
        clickhouse_flush_busy=flush_busy,
        clickhouse_rollup_busy=rollup_busy,
        reads=reads,
        clusters=clusters,
        workers=_tier(
            inputs,
            workers,
            workers,
            workers * given.worker_gib.value + live_cells * seen.cell_memory.value / GIB,
            0.0,
        ),
        brokers=_tier(inputs, brokers, broker_cores, broker_cores * server_gib, log_tib),
        clickhouse=_tier(
            inputs,
            round(clusters * copies),
            clickhouse_cores,
            clickhouse_cores * server_gib,
            cells_disk_tib(inputs, load) * copies,
        ),
        web=_tier(inputs, web, web, web * given.worker_gib.value, 0.0),
    )


def cells_disk_tib(inputs: Inputs, load: Load) -> float:
    """One copy of the minutes, hours and days that are kept."""
    seen, given = inputs.measured, inputs.assumed
    minutes = load.touched(MINUTE_S) * DAY_S / MINUTE_S * given.minute_days.value
    hours = load.touched(HOUR_S) * DAY_S / HOUR_S * given.hour_days.value
    days = load.touched(DAY_S) * given.day_days.value
    return (minutes * seen.cell_bytes_1m.value + (hours + days) * seen.cell_bytes_1h.value) / TIB


def broker_costs(inputs: Inputs) -> tuple[float, float, float, float]:
    """CPU seconds per million records and per GB: of producing, then of consuming.

    The line through the two sizes that were measured: what does not grow with the bytes is of the
    record.
    """
    seen = inputs.measured
    found: list[float] = []
    for small, large in (
        (seen.broker_produce_100.value, seen.broker_produce_1000.value),
        (seen.broker_consume_100.value, seen.broker_consume_1000.value),
    ):
        per_gb = max(0.0, (large - small) / 0.9)  # a million times 900 bytes is 0.9 GB
        found += [max(0.0, small - per_gb * 0.1), per_gb]
    return found[0], found[1], found[2], found[3]


def _broker_busy(inputs: Inputs, records: float, log_bytes: float) -> float:
    """Cores that are busy in all brokers: a write for each copy, and one reader."""
    copies = inputs.assumed.replication.value
    per_record, per_gb, read_record, read_gb = broker_costs(inputs)
    millions, gigabytes = records / MILLION, log_bytes / 1e9
    written = millions * per_record + gigabytes * per_gb
    return copies * written + millions * read_record + gigabytes * read_gb


def _network_mb(inputs: Inputs, log_bytes: float) -> float:
    """MB/s in and out of all brokers: in once for each copy, out once for each further copy and
    once for the workers."""
    copies = inputs.assumed.replication.value
    return log_bytes * (copies + (copies - 1) + 1) / 1e6


def _tier(inputs: Inputs, machines: int, cores: float, memory_gib: float, disk_tib: float) -> Tier:
    given = inputs.assumed
    price = (
        cores * given.core_price.value
        + memory_gib * given.gib_price.value
        + disk_tib * given.tib_price.value
    )
    return Tier(machines, cores, memory_gib, disk_tib, price)


def _power_of_two(least: int) -> int:
    return 1 << max(0, least - 1).bit_length()
