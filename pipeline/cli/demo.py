"""`tally demo`: everything on this machine, with a synthetic stream and a live table."""

import asyncio
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pipeline.cli.up import ClickHousePort, Data, KafkaPort, WebPort, tell
from pipeline.clock import SystemClock

if TYPE_CHECKING:
    from pipeline.local.up import Addresses


def register(app: typer.Typer) -> None:
    app.command("demo")(demo)


def demo(
    data: Data = Path(".tally-demo"),
    kafka_port: KafkaPort = 19092,
    clickhouse_port: ClickHousePort = 18123,
    web_port: WebPort = 8321,
    rate: Annotated[int, typer.Option(min=1, max=100_000, help="Events per second.")] = 2_000,
    seconds: Annotated[float, typer.Option(min=0, help="Stop after so long; 0: at Ctrl-C.")] = 0,
) -> None:
    """Everything on this machine, with a synthetic stream and a live table.

    Posts are liked and unliked, pages viewed, hashtags used; every two minutes a new one bursts.
    A new demo's hashtags have a past of half an hour, so that bursts trend from the beginning.
    Ctrl-C stops everything and keeps the data, so that the next start goes on counting.
    """
    # Imported here since they bring the clients, which `tally --help` can do without.
    from pipeline.local.demo import Demo  # noqa: PLC0415
    from pipeline.local.past import write_past  # noqa: PLC0415
    from pipeline.local.up import UpOptions, up  # noqa: PLC0415

    clock = SystemClock()

    async def attend(addresses: "Addresses", stop: Callable[[], None]) -> None:
        await Demo(addresses.environment, clock, rate=rate, seconds=seconds).run()
        stop()

    options = UpOptions(data, kafka_port, clickhouse_port, web_port, workers=1)
    past = partial(write_past, clock=clock, rate=rate)
    raise typer.Exit(asyncio.run(up(options, clock, tell, attend, past)))
