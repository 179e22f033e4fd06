"""`tally count`: a counter's total and windows."""

from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated

import typer

from pipeline.cli.output import console, print_json
from pipeline.cli.times import duration_ms, moment
from pipeline.clock import SystemClock


class GrainOption(StrEnum):
    """The grains people may ask for."""

    MINUTE = "1m"
    HOUR = "1h"
    DAY = "1d"


class ModeOption(StrEnum):
    """How a number is known."""

    EXACT = "exact"


def register(app: typer.Typer) -> None:
    app.command("count")(count)


def count(
    counter: Annotated[str, typer.Argument(help="family:key, for instance likes:post-42")],
    by: Annotated[GrainOption | None, typer.Option(help="Windows of this size, too.")] = None,
    last: Annotated[str | None, typer.Option(help="Only the last 60m, 24h, 7d, ...")] = None,
    since: Annotated[str | None, typer.Option(help="From this time on (UTC).")] = None,
    until: Annotated[str | None, typer.Option(help="Up to, not including, this time.")] = None,
    region: Annotated[str | None, typer.Option(help="Only this region; * is all.")] = None,
    mode: Annotated[
        ModeOption, typer.Option(help="exact: summed over all shards now.")
    ] = ModeOption.EXACT,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """A counter's total, and with --by its windows.

    Example: `tally count likes:post-42 --by 1m --last 60m`
    """
    from pipeline.reads import Reads  # noqa: PLC0415 - brings the ClickHouse client
    from pipeline.sink import connect  # noqa: PLC0415
    from schemas.settings import load_settings  # noqa: PLC0415

    clock = SystemClock()
    if last is not None and since is not None:
        raise typer.BadParameter("give --last or --since, not both")
    start = moment(since) if since else None
    if last is not None:
        start = datetime.fromtimestamp((clock.now_ms() - duration_ms(last)) / 1000, UTC)
    answer = Reads(connect(load_settings().clickhouse), clock).count(
        counter,
        by=by.value if by else None,
        since=start,
        until=moment(until) if until else None,
        region=None if region == "*" else region,
    )
    if json:
        print_json({**answer.document(), "mode": mode.value})
        return
    out = console()
    out.print(
        f"{counter}  {answer.total:,}" + (f"  (net {answer.net:,})" if answer.net < 0 else "")
    )
    for row in answer.windows:
        out.print(f"  {row.window}  {row.count:>12,}")
    if not answer.complete:
        out.print("  not complete: a shard was not flushed lately; see `tally status`")
