"""`tally history`: the corrections of a counter or a family, who made them and why."""

from typing import TYPE_CHECKING, Annotated

import typer

from pipeline.cli.adjusting import connected
from pipeline.cli.names import check_counter
from pipeline.cli.output import print_json
from pipeline.cli.printable import printable, write_line
from pipeline.cli.times import moment_ms

if TYPE_CHECKING:
    from pipeline.adjustments.history import Entry

LIMIT = 100


def register(app: typer.Typer) -> None:
    app.command("history")(history)


def history(
    counter: Annotated[str, typer.Argument(help="family:key; with --family a family")],
    family: Annotated[bool, typer.Option("--family", help="Of all counters of a family.")] = False,
    since: Annotated[str | None, typer.Option(help="Made from this time on (UTC).")] = None,
    limit: Annotated[int, typer.Option(min=1, max=10**9, help="At most so many.")] = LIMIT,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """The corrections that hold, newest first: who, when, why, by how much, before and after.

    Example: `tally history hashtag --family --since 2026-11-01`
    """
    from pipeline.adjustments.history import history as ask  # noqa: PLC0415 - brings the client

    if not family:
        check_counter(counter)
    since_ms = None if since is None else moment_ms(since)
    _, reads = connected()
    # One more than is shown tells whether there are more.
    entries = ask(reads, counter, family=family, since_ms=since_ms, limit=limit + 1)
    shown = entries[:limit]
    if json:
        name = "family" if family else "counter"
        print_json({name: counter, "adjustments": [one.document() for one in shown]})
        return
    if not shown:
        write_line(f"{printable(counter)} has no adjustments{' since then' if since else ''}")
    for one in shown:
        write_line(_line(one, named=family))
    if len(entries) > limit:
        write_line(f"and more: --limit {2 * limit} shows them")


def _line(one: "Entry", *, named: bool) -> str:
    name = f"{printable(one.counter)}  " if named else ""
    values = (
        "" if one.before is None or one.after is None else f" ({one.before:,} -> {one.after:,})"
    )
    about = f" in {one.grain} {one.window}" if one.grain else ""
    where = f" of {printable(one.region)}" if one.region else ""
    return (
        f"{one.at}  {name}{one.by:+,}{values}{about}{where}  {printable(one.who)}: "
        f"{printable(one.why)}  [{printable(one.id)}]"
    )
