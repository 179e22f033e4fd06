"""`tally status`: how a running Tally is doing; the exit code is its health."""

from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from pipeline.cli.output import console, print_json
from pipeline.clock import SystemClock

if TYPE_CHECKING:
    from pipeline.status import Status

UNHEALTHY = 1


def register(app: typer.Typer) -> None:
    app.command("status")(status)


def status(
    json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Lag and ages per shard; the exit code is 0 when healthy, 1 when not."""
    from pipeline.reads import Reads  # noqa: PLC0415 - brings the ClickHouse client
    from pipeline.sink import connect  # noqa: PLC0415
    from pipeline.status import status as ask  # noqa: PLC0415
    from schemas.settings import load_settings  # noqa: PLC0415

    settings, clock = load_settings(), SystemClock()
    found = ask(settings.kafka, Reads(connect(settings.clickhouse), clock), clock)
    if json:
        print_json(found.document())
    else:
        _print(found)
    if not found.healthy:
        raise typer.Exit(UNHEALTHY)


def _print(found: "Status") -> None:
    table = Table("shard", "log end", "lag", "flushed", "checkpointed", box=None)
    for column in table.columns:
        column.justify = "right"
    for shard in found.shards:
        table.add_row(
            str(shard.shard),
            f"{shard.log_end:,}",
            f"{shard.lag:,}",
            _age(shard.flush_age_ms),
            _age(shard.checkpoint_age_ms),
        )
    out = console()
    out.print(table)
    for problem in found.problems:
        out.print(f"! {problem}", style="red")
    if found.healthy:
        lag = sum(shard.lag for shard in found.shards)
        out.print(f"healthy: {len(found.shards)} shards, lag {lag:,}", style="green")


def _age(age_ms: int | None) -> str:
    return "never" if age_ms is None else f"{age_ms / 1000:.1f} s ago"
