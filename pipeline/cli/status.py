"""`tally status`: how a running Tally is doing; the exit code is its health."""

from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from pipeline.amounts import amount
from pipeline.cli.output import console, print_json
from pipeline.cli.printable import printable
from pipeline.clock import SystemClock

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pipeline.reads.health import Status
    from pipeline.reads.observed import PlanStatus
    from pipeline.reads.senders import Sender

UNHEALTHY = 1


def register(app: typer.Typer) -> None:
    app.command("status")(status)


def status(
    json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Lag, ages, freshness, dead letters, rollups, hot counters; what is wrong and what to do.

    The exit code is 0 when healthy, 1 when not. Lines with `!` make it unhealthy; those with `-`
    are only remarks.

    Example: `tally status --json`
    """
    from pipeline.clickhouse import connect  # noqa: PLC0415 - brings the ClickHouse client
    from pipeline.reads.reads import Reads  # noqa: PLC0415
    from pipeline.reads.status import status as ask  # noqa: PLC0415 - brings the Kafka client
    from schemas.settings import load_settings  # noqa: PLC0415

    settings = load_settings()
    found = ask(settings, Reads(connect(settings.clickhouse), SystemClock()))
    if json:
        print_json(found.document())
    else:
        _print(found)
    if not found.healthy:
        raise typer.Exit(UNHEALTHY)


def _print(found: "Status") -> None:
    out = console()
    out.print(_table(found))
    for line in _lines(found):
        out.print(line)
    for remark in found.remarks:
        out.print(f"- {printable(remark)}", style="yellow")
    for problem in found.problems:
        out.print(f"! {printable(problem)}", style="red")
    if found.healthy:
        lag = sum(shard.lag for shard in found.shards)
        out.print(f"healthy: {amount(len(found.shards), 'shard')}, lag {lag:,}", style="green")


def _table(found: "Status") -> Table:
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
    return table


def _lines(found: "Status") -> "Iterator[str]":
    """What is known of all shards together."""
    if found.lag is not None:
        lag = found.lag
        yield f"lag          mean {lag.mean:,.0f}, greatest {lag.greatest:,} (shard {lag.shard})"
    if found.freshness is not None and found.freshness_p99_ms is not None:
        fresh, worst = found.freshness, found.freshness_p99_ms
        yield (
            f"freshness    p50 {fresh.p50_ms:,} ms, p99 {fresh.p99_ms:,} ms in the last 5 minutes; "
            f"p99 of shards: mean {worst.mean:,.0f} ms, greatest {worst.greatest:,} ms "
            f"(shard {worst.shard})"
        )
    letters = found.dead_letters
    most = f", most as: {printable(letters.reason)}" if letters.reason else ""
    yield f"dead letters {letters.total:,}, in the last hour {letters.last_hour:,}{most}"
    oldest_ms = found.rollup_age_ms_max
    yield "rollups      " + ("none yet" if oldest_ms is None else f"oldest {_age(oldest_ms)}")
    behind_ms = found.trends_behind_ms
    behind = "not known yet" if behind_ms is None else f"{behind_ms / 1000:.0f} s behind the log"
    yield f"trends       {behind}"
    yield f"shard plan   {_plan(found.shard_plan)}"
    yield from map(_sender, found.senders)


def _plan(plan: "PlanStatus") -> str:
    most, hottest = plan.most_split, plan.hottest
    told = [f"{plan.split:,} {'counter' if plan.split == 1 else 'counters'} split"]
    if most is not None:
        told.append(f"most {printable(most.counter)} into {most.shards}")
    if hottest is not None:
        told.append(f"hottest {printable(hottest.counter)} with {hottest.rate:,.0f} rows/s")
    return ", ".join(told)


def _sender(sender: "Sender") -> str:
    behind_ms = sender.behind_ms
    behind = "nothing counted" if behind_ms is None else f"{behind_ms / 1000:.0f} s behind its log"
    last = _age(sender.exchanged_age_ms)
    return f"cluster      {printable(sender.cluster)}: last exchange {last}, {behind}"


def _age(age_ms: int | None) -> str:
    return "never" if age_ms is None else f"{age_ms / 1000:.1f} s ago"
