"""`tally accept-log`: go on with a log that is not the one that was counted."""

import asyncio
from typing import TYPE_CHECKING, Annotated

import typer

from pipeline.amounts import amount
from pipeline.cli.output import console, print_json
from pipeline.clock import SystemClock

if TYPE_CHECKING:
    from pipeline.control.accept_log import Accepted
    from schemas.settings import Settings


def register(app: typer.Typer) -> None:
    app.command("accept-log")(accept_log)


def accept_log(
    json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Go on after a log was truncated, made anew or trimmed, or its offsets were lost.

    A worker refuses such a log, and `tally status` says so. What was counted stays; counting goes
    on at the first record that came after it, and ids that were counted stay known. Dead letters
    of a log that was only trimmed can still be retried, those of another log cannot. Stop all
    workers first: while one runs, nothing is done.

    Example: `tally accept-log --json`
    """
    from schemas.settings import load_settings  # noqa: PLC0415 - brings pydantic

    accepted = asyncio.run(_accept(load_settings()))
    if json:
        print_json(
            {
                "accepted": [
                    {
                        "shard": one.shard,
                        "incarnation": one.incarnation,
                        "start": one.start,
                        "log": "trimmed" if one.trimmed else "other",
                        "ids": one.ids,
                        "refused": one.refused,
                    }
                    for one in accepted
                ]
            }
        )
        return
    for one in accepted:
        console().print(f"shard {one.shard} goes on at offset {one.start} ({one.reason})")
        console().print(f"  {_kept(one)}")
    if not accepted:
        console().print("nothing to accept: every shard was counted from the log that is there")


def _kept(one: "Accepted") -> str:
    """What the shard still knows of the time before."""
    if one.trimmed:
        return (
            f"the log was trimmed: {amount(one.ids, 'id')} and {amount(one.refused, 'place')} "
            "of dead letters stay known"
        )
    return (
        f"it is another log: {amount(one.ids, 'id', 'stay')} known; dead letters of the log "
        "before can not be retried, give those events with `tally produce`, each once"
    )


async def _accept(settings: "Settings") -> "list[Accepted]":
    from pipeline import topics  # noqa: PLC0415 - brings the clients
    from pipeline.builds.live import build_of  # noqa: PLC0415
    from pipeline.builds.positions import reached  # noqa: PLC0415
    from pipeline.changelog_writer import ChangelogWriter  # noqa: PLC0415
    from pipeline.clickhouse import connect  # noqa: PLC0415
    from pipeline.control.accept_log import LogAcceptor  # noqa: PLC0415
    from pipeline.control.accepted_rows import AcceptedRows  # noqa: PLC0415
    from pipeline.control.flushed import FlushedReads  # noqa: PLC0415
    from pipeline.log_check import RecoveryReader  # noqa: PLC0415
    from pipeline.partition_reader import PartitionReader  # noqa: PLC0415
    from pipeline.reads.reads import Reads  # noqa: PLC0415

    client = connect(settings.clickhouse)
    build = build_of(settings, client)
    topic = topics.changelog(build)
    reader = PartitionReader(settings.kafka)
    changelog = ChangelogWriter(settings.kafka, topic)
    recovery = RecoveryReader(reader, topic, topics.INCREMENTS)
    try:
        # Asked first: this tells why, if Kafka refuses the client.
        partitions = topics.increments_partitions(settings.kafka)
        await changelog.start()
        return await LogAcceptor(
            settings.kafka,
            build,
            partitions,
            reader=reader,
            recovery=recovery,
            changelog=changelog,
            flushed=FlushedReads(Reads(client, SystemClock()), build),
            counted=reached(client, build),
            tell=AcceptedRows(settings.clickhouse, build, settings.replica, SystemClock()),
        ).accept()
    finally:
        await changelog.stop()
        await reader.stop()
