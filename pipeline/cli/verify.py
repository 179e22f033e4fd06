"""`tally verify`: whether log and ClickHouse agree."""

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

import typer

from pipeline.amounts import amount
from pipeline.cli.output import console, print_json
from pipeline.cli.times import moment_ms
from pipeline.clock import SystemClock

if TYPE_CHECKING:
    from pipeline.reconcile.compared import Reconciled

DIFFERS = 1
LINES_MAX = 20
PROGRESS_EVERY_S = 2.0


def register(app: typer.Typer) -> None:
    app.command("verify")(verify)


def verify(
    log: Annotated[
        bool, typer.Option("--log", help="Read the log as well: takes as long as it is.")
    ] = False,
    since: Annotated[
        str | None, typer.Option(help="With --log: from this time on (UTC), by the log's time.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Compare what the log has with what ClickHouse has, minute by minute.

    Workers keep a ledger of every minute of each partition's log, and the cells of the live build
    must add up to it. All minutes are compared that every family still keeps. One line says that
    they agree; else there is a line for each difference, and the exit code is 1.

    Example: `tally verify --log --since 2026-11-16T00:00`
    """
    from pipeline.reconcile.verify import verify as compare  # noqa: PLC0415 - brings the clients
    from schemas.settings import load_settings  # noqa: PLC0415

    if since is not None and not log:
        raise typer.BadParameter("--since goes with --log")
    since_ms = 0 if since is None else moment_ms(since)
    on_progress = _progress() if log else None
    found = compare(load_settings(), SystemClock(), since_ms=since_ms, on_progress=on_progress)
    if json:
        print_json(found.document())
    else:
        _print(found)
    if not found.agrees:
        raise typer.Exit(DIFFERS)


def _print(found: "Reconciled") -> None:
    out = console()
    if found.agrees:
        out.print(found.line())
        return
    for one in found.differences[:LINES_MAX]:
        out.print(one.text())
    more = len(found.differences) - LINES_MAX
    if more > 0:
        out.print(f"and {amount(more, 'more difference')}: --json has all of them")
    out.print(
        "tally replay counts the log again beside these counts; --check compares, --swap takes"
    )


def _progress() -> Callable[[int, int], None]:
    """Tells on stderr, every two seconds at most, how much of the log is read.

    Only where somebody looks: a file of errors should hold errors.
    """
    clock = SystemClock()
    told_s = clock.monotonic_s()

    def tell(records: int, offsets: int) -> None:
        nonlocal told_s
        is_due = clock.monotonic_s() - told_s >= PROGRESS_EVERY_S
        if is_due and sys.stderr.isatty():
            told_s = clock.monotonic_s()
            sys.stderr.write(f"tally: {records:,} of about {offsets:,} records read\n")
            sys.stderr.flush()

    return tell
