"""The whole path of an increment, from Kafka to ClickHouse, on one screen.

    Kafka `tally.increments`
      └▶ bulk transport: one event per (partition, fetch)     bulk.py
          └▶ decode: records → columns, or dead letters       decode.py, dead_letters.py
              └▶ count: columns → cells, in log order         worker.py, shard.py, cells.py
                  ├▶ FLUSH what is dirty → ClickHouse         writes/, checkpoint.py
                  └▶ CHECKPOINT → changelog → commit          writes/, checkpoint.py, changelog.py
    leader: heartbeats, rules repeated, 1m → 1h → 1d, trends  leader.py, rollup/, trends/
            shards of hot counters, for producers to follow   planning/
            how many partitions there are, for reads          control/
            log and ClickHouse held against each other        reconcile/
            (of a build that is not live: rollups alone)      builds/
    in a thread beside it: commands to strict counters        strict/

Faust gives each worker its partitions, reads the cell table's changelog when they move, and
delivers fetches. Committing and writing the changelog are ours, because a count is exact only if
its offset is committed after its cells are safe.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, cast

import faust
import mode

from pipeline import bulk, store, takeover, topics
from pipeline.assignor import EvenAssignor
from pipeline.changelog_writer import ChangelogWriter
from pipeline.checkpoint import Checkpointer
from pipeline.control.leaders_pass import NotingPartitions
from pipeline.control.shard_plan import PlanReader, keep_plan_with
from pipeline.flushed_check import FlushedCheck
from pipeline.group import Group
from pipeline.kafka_clients import faust_credentials
from pipeline.leader import Leader
from pipeline.log_check import RecoveryReader
from pipeline.metrics.meter import UNMEASURED
from pipeline.metrics.recoveries import Recoveries
from pipeline.partition_reader import PartitionReader
from pipeline.planning.leaders_pass import ShardPlanning
from pipeline.prompt import PromptTables
from pipeline.reconcile.leaders_pass import LeadersPass
from pipeline.rollup.leaders_pass import roll_up_with
from pipeline.strict.thread import decide_beside
from pipeline.trends.leaders_pass import score_trends_with
from pipeline.watchdog import RecoveryWatchdog
from pipeline.worker import Worker
from pipeline.writes import refusals
from pipeline.writes.pace import Pace
from pipeline.writes.pulse import Pulse
from pipeline.writes.room import Room
from pipeline.writes.sink import ClickHouseSink

if TYPE_CHECKING:
    from faust.types import StreamT

    from pipeline.builds.following import Following
    from pipeline.clock import Clock
    from pipeline.metrics.meter import Meter
    from pipeline.recovery import RecoveredShard
    from pipeline.takeover import Beginning
    from schemas.settings import Settings

FETCH_BYTES_MAX = 4 << 20
"""Of one partition in one event. All rows of a cell that come together touch it once, so a log that
is read in large pieces is counted quicker; one piece takes up to a fifth of a second."""


class FolderlessApp(faust.App):
    """A Faust app that keeps nothing on the disk."""

    def _create_directories(self) -> None:
        pass


def build_app(
    settings: Settings,
    clock: Clock,
    beginning: Beginning,
    following: Following,
    meter: Meter = UNMEASURED,
) -> faust.App:
    """The Faust app of one worker; nothing connects before it is started.

    `settings` name the build; shards that nobody has counted begin as `beginning` says. `meter` is
    told how it is doing.
    """
    app = FolderlessApp(
        topics.group_id(settings.build),
        broker=f"{bulk.SCHEME}://{settings.kafka}",
        broker_credentials=faust_credentials(settings.kafka),
        store=f"{store.SCHEME}://",
        web_enabled=False,
        topic_disable_leader=True,
        broker_session_timeout=10.0,  # a killed worker is missed for this long
        broker_heartbeat_interval=3.0,
        # Reading may pause for as long as ClickHouse is away; that is no reason to leave the group.
        broker_max_poll_interval=7 * 86_400.0,
        consumer_max_fetch_size=FETCH_BYTES_MAX,
        consumer_auto_offset_reset="earliest",
        consumer_metadata_max_age_ms=10_000,  # new partitions are missed for this long
        stream_buffer_maxsize=8,  # events, so fetches
        stream_wait_empty=False,
        TableManager=PromptTables,
        PartitionAssignor=EvenAssignor,
    )
    fetches = bulk.FetchSchema()
    increments = app.topic(topics.INCREMENTS, schema=fetches, acks=False)
    changelog_topic = app.topic(topics.changelog(settings.build), schema=fetches, acks=False)
    table = app.Table("cells", changelog_topic=changelog_topic, recovery_buffer_size=8)
    cells = cast("store.CellStore", table.data)

    group = Group(app, topics.INCREMENTS)
    sink = ClickHouseSink(settings.clickhouse, settings.build, settings.replica, meter)
    changelog = ChangelogWriter(settings.kafka, topics.changelog(settings.build))
    checkpointer = Checkpointer(sink, changelog, group.commit, clock)
    reader = PartitionReader(settings.kafka)
    recovery = RecoveryReader(reader, topics.changelog(settings.build), topics.INCREMENTS)
    room = Room(settings.unflushed_rows_max, checkpointer.unwritten_letters, clock, meter=meter)
    pace = Pace(clock, settings.flush_interval_s, settings.checkpoint_interval_s)
    check_first = FlushedCheck(settings.clickhouse, settings.build, recovery)
    pulse = Pulse(checkpointer, group, room, pace, check_first=check_first, meter=meter)
    sink.watch(pulse.on_progress)
    changelog.watch(pulse.on_progress)
    worker = Worker(checkpointer, recovery, room, following, meter)
    recoveries = Recoveries(meter, clock)
    leader = Leader(
        checkpointer,
        changelog,
        roll_up_with(settings, clock),
        keep_plan_with(settings.kafka, clock),
        score_trends_with(settings, clock),
        planning=ShardPlanning(settings, clock),
        noting=NotingPartitions(settings),
        is_live=following.is_live,
        reconcile=LeadersPass(settings, clock).run,
        clock=clock,
        settings=settings,
        meter=meter,
    )

    async def take_over(recovered: list[RecoveredShard]) -> None:
        await changelog.start()
        async with refusals.telling(sink, clock, pulse.finish), pulse.writing:
            is_ours = await takeover.take_over(
                recovered,
                cells.generation,
                checkpointer,
                offsets=group,
                changelog=recovery,
                log=recovery,
                control=changelog,
                plan=PlanReader(settings.kafka),
                replica=settings.replica,
                beginning=beginning,
            )
        if is_ours:
            pulse.on_taken_over()
            recoveries.end()
            sys.stdout.write(f"worker ready: {len(recovered)} partitions\n")
            sys.stdout.flush()

    cells.take_over = take_over

    async def disown(*_signal: Any, **_details: Any) -> None:
        checkpointer.disown()
        recoveries.begin()

    async def finish(*_signal: Any, **_details: Any) -> None:
        await pulse.finish()
        await changelog.stop()
        await reader.stop()
        sink.close()

    app.on_partitions_revoked.connect(disown)
    app.on_before_shutdown.connect(finish)
    app.task(refusals.told(pulse.run, sink, clock, pulse.finish))
    decide_beside(app, checkpointer, settings, clock, meter)
    app.task(following.watch)
    for duty in leader.duties():
        app.task(duty)
    app.task(RecoveryWatchdog(lambda: app.rebalancing, lambda: cells.progress, clock).watch)

    @app.agent(increments, supervisor_strategy=mode.CrashingSupervisor)
    async def count(stream: StreamT[Any]) -> None:
        async for event in stream.events():
            async with refusals.telling(sink, clock, pulse.finish):
                await worker.count(event.value, event.message.generation_id)

    return app
