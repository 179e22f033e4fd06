"""`tally up`: everything on this machine, waiting for events."""

import asyncio
import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pipeline.cli.output import console
from pipeline.clock import SystemClock
from pipeline.embedded.log.fsync import Fsync

if TYPE_CHECKING:
    from pipeline.local.parts import News
    from pipeline.local.up import Addresses

Data = Annotated[Path, typer.Option(help="The folder that keeps everything.")]
KafkaPort = Annotated[int, typer.Option(min=0, max=65535, help="Of the log; 0 takes a free one.")]
ClickHousePort = Annotated[
    int, typer.Option(min=0, max=65535, help="Of ClickHouse; 0 takes a free one.")
]
WebPort = Annotated[int, typer.Option(min=0, max=65535, help="Of the web API; 0 takes a free one.")]

STYLES = {"healthy": "green", "stopped": "dim", "failed": "bold red"}


def register(app: typer.Typer) -> None:
    app.command("up")(up)


def up(
    data: Data = Path(".tally"),
    kafka_port: KafkaPort = 19092,
    clickhouse_port: ClickHousePort = 18123,
    web_port: WebPort = 8321,
    workers: Annotated[int, typer.Option(min=0, max=64, help="How many workers to run.")] = 1,
    fsync: Annotated[
        Fsync, typer.Option(help="Force the log to the disk each second, or before each answer.")
    ] = Fsync.SECOND,
) -> None:
    """Everything on this machine, waiting for your events.

    Runs in the foreground until Ctrl-C, which stops the parts in order and keeps the data; a second
    Ctrl-C kills them. Addresses and process ids are in DATA/addresses.json while all is healthy,
    the parts' output in DATA/logs.

    Example: `tally up --data counts --workers 2`
    """
    # Imported here since it brings the Kafka client, which `tally --help` can do without.
    from pipeline.local.up import UpOptions, next_steps  # noqa: PLC0415
    from pipeline.local.up import up as run_up  # noqa: PLC0415

    async def attend(addresses: "Addresses", stop: Callable[[], None]) -> None:  # noqa: ARG001 - signals stop it
        say(next_steps(data, addresses))

    options = UpOptions(data, kafka_port, clickhouse_port, web_port, workers, fsync)
    raise typer.Exit(asyncio.run(run_up(options, SystemClock(), tell, attend)))


def tell(news: "News") -> None:
    """One line for people, and the part's last words if it has some."""
    say(news.line(), STYLES.get(news.state, "yellow"))
    for line in news.last_lines:
        say(f"    | {line}")


def say(text: str, style: str = "") -> None:
    """Print a line for people."""
    # A closed terminal or pipe must not end the parts: they may be at work for somebody else.
    with contextlib.suppress(OSError):
        console().print(text, style=style or None)
