"""`tally unique`: how many different members counters have had."""

from typing import TYPE_CHECKING, Annotated

import typer

from pipeline.cli.count import GrainOption
from pipeline.cli.names import check_counter
from pipeline.cli.output import print_json
from pipeline.cli.printable import printable, write_line
from pipeline.cli.times import asked_span
from pipeline.clock import SystemClock

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pipeline.reads.uniques import UniquesAnswer


def register(app: typer.Typer) -> None:
    app.command("unique")(unique)


def unique(
    counters: Annotated[
        list[str],
        typer.Argument(
            metavar="COUNTER...", help="One or more family:key; who is in several counts once."
        ),
    ],
    by: Annotated[GrainOption | None, typer.Option(help="Windows of this size, too.")] = None,
    last: Annotated[str | None, typer.Option(help="Only the last 60m, 24h, 7d, ...")] = None,
    since: Annotated[str | None, typer.Option(help="From this time on (UTC).")] = None,
    until: Annotated[str | None, typer.Option(help="Up to, not including, this time.")] = None,
    region: Annotated[str | None, typer.Option(help="Only this region; * is all.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Distinct members with bounds; several counters and windows are united.

    The number is an estimate: the truth is between the bounds with a confidence of 95 %. Members
    are kept by hours and days unless tally.toml says otherwise, and a window is united as a whole
    where a time cuts it: the answer says from when until when its windows are.

    Example: `tally unique views:home views:about --by 1h --last 24h`
    """
    from pipeline.clickhouse import connect  # noqa: PLC0415 - brings the ClickHouse client
    from pipeline.reads.reads import Reads  # noqa: PLC0415
    from pipeline.reads.uniques import Question, uniques  # noqa: PLC0415
    from schemas.settings import load_settings  # noqa: PLC0415 - brings pydantic

    for counter in counters:
        check_counter(counter)
    clock = SystemClock()
    span = asked_span(last, since, until, clock.now_ms())
    question = Question(
        tuple(counters), by.value if by else None, span, None if region == "*" else region
    )
    answer = uniques(Reads(connect(load_settings().clickhouse), clock), question)
    if json:
        print_json(answer.document())
        return
    for line in lines(answer):
        write_line(line)


def lines(answer: "UniquesAnswer") -> "Iterator[str]":
    """The answer for people, line by line."""
    names = ", ".join(map(printable, answer.counters))
    together = " together" if len(answer.counters) > 1 else ""
    yield f"{names}{together}  {answer.uniques:,}  ({answer.low:,} to {answer.high:,})"
    for row in answer.windows or ():
        yield f"  {row.window}  {row.uniques:>12,}  ({row.low:,} to {row.high:,})"
    if answer.begins is not None:
        yield f"  windows from {answer.begins} until {answer.ends}"
    if not answer.complete:
        yield "  not complete: a shard was not flushed lately; see tally status"
    if answer.spilled_to is not None:
        yield (
            "  may be too low: its family had more counters than its cap allows, and members "
            f"past it are under {printable(answer.spilled_to)}"
        )
    for remark in answer.remarks:
        yield f"  {printable(remark)}"
