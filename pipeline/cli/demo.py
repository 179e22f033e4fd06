"""`tally demo`: everything on this machine, with a synthetic stream and a live table."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pipeline.cli.up import ClickHousePort, Data, KafkaPort, WebPort, say, tell
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
    rate: Annotated[
        int, typer.Option(min=1, max=100_000, help="Events per second, the mean of a day.")
    ] = 2_000,
    seconds: Annotated[float, typer.Option(min=0, help="Stop after so long; 0: at Ctrl-C.")] = 0,
) -> None:
    """Everything on this machine, with a synthetic stream and a live picture of the counts.

    Posts are liked and unliked, pages viewed, hashtags used, in five regions whose evenings take
    turns; every two minutes a new hashtag bursts. A new demo's hashtags have a past of half an
    hour, so that bursts trend from the beginning. Ctrl-C stops everything and keeps the data, so
    that the next start goes on counting.

    Example: `tally demo --rate 5000 --seconds 60`
    """
    # Imported here since they bring the clients, which `tally --help` can do without.
    from pipeline.local.demo import Demo  # noqa: PLC0415
    from pipeline.local.past import RATE_MAX, write_past  # noqa: PLC0415
    from pipeline.local.up import UpOptions, up  # noqa: PLC0415

    clock = SystemClock()

    async def attend(addresses: "Addresses", stop: Callable[[], None]) -> None:
        await Demo(addresses.environment, clock, rate=rate, seconds=seconds).run()
        stop()

    options = UpOptions(data, kafka_port, clickhouse_port, web_port, workers=1)

    async def past(folder: Path) -> None:
        if await asyncio.to_thread(folder.exists):
            say(f"The demo goes on where it was: {data} has its counts.")
        elif rate <= RATE_MAX:
            say("A new demo: half an hour of its past is made up first, then everything starts.")
        await write_past(folder, clock, rate)

    code = asyncio.run(up(options, clock, tell, attend, past))
    say(f"Nothing runs any more. {data} has the data: the next start goes on with it.")
    raise typer.Exit(code)
