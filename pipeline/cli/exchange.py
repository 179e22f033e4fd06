"""`tally exchange`: this cluster's cells to another cluster's ClickHouse."""

import logging
import sys
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pipeline.amounts import amount
from pipeline.cli.output import print_error, print_json
from pipeline.cli.printable import printable, write_line
from pipeline.cli.times import duration_ms
from pipeline.clock import SystemClock

if TYPE_CHECKING:
    from pipeline.exchange.exchange import Passed
    from pipeline.exchange.side import Side
    from schemas.addresses import ClickHouseAddress
    from schemas.settings import Settings


def register(app: typer.Typer) -> None:
    app.command("exchange")(exchange)


def exchange(
    to: Annotated[
        str | None, typer.Option(metavar="URL", help="The other cluster's ClickHouse.")
    ] = None,
    once: Annotated[bool, typer.Option("--once", help="One pass instead of one after another.")] = (
        False
    ),
    interval: Annotated[str, typer.Option(help="From one pass to the next.")] = "10s",
    new_identity: Annotated[
        bool, typer.Option("--new-identity", help="Make this cluster another one, for others.")
    ] = False,
    forget: Annotated[
        str | None, typer.Option(metavar="CLUSTER", help="Drop what that cluster sent here.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Copy what this cluster counted to another cluster's ClickHouse; Ctrl-C ends it.

    Counts there are then those of both clusters. Each side runs it towards the other. What was
    copied may be copied again, in any order, after any outage: counts are the same.

    The other ClickHouse must have Tally's tables (`tally migrate`). TALLY_CLICKHOUSE is this one.
    User and password of the other are in its URL; TALLY_CLICKHOUSE_CA is trusted for both.

    Example: `tally exchange --to http://clickhouse.eu.example:8123`
    """
    from pipeline.exchange.side import Side  # noqa: PLC0415 - brings the ClickHouse client
    from schemas.settings import load_settings  # noqa: PLC0415

    if (to is not None) + new_identity + (forget is not None) != 1:
        raise typer.BadParameter("give one of --to, --new-identity and --forget")
    settings = load_settings()
    here = Side(settings.clickhouse, "TALLY_CLICKHOUSE")
    if to is None:
        _change(here, forget, json=json)
        return
    if settings.clickhouse.cluster is not None:
        # Which blocks were copied is known by the numbers that one server gave them.
        raise typer.BadParameter("--to: cells that TALLY_CLICKHOUSE_CLUSTER spreads cannot be sent")
    interval_s = duration_ms(interval) / 1000
    _run(here, Side(elsewhere(to), "--to"), settings, None if once else interval_s, json=json)


def elsewhere(to: str) -> "ClickHouseAddress":
    """The other cluster's address: trusted as this one is, but as who its own URL says.

    A password and a certificate are what this cluster knows its client by; another has no business
    with them.
    """
    from pipeline.errors import OperatorError  # noqa: PLC0415
    from schemas.settings import load_settings  # noqa: PLC0415

    own = ["clickhouse_password_file", "clickhouse_cert", "clickhouse_key", "clickhouse_cluster"]
    if not to.strip().lower().startswith("https:"):
        own.append("clickhouse_ca")
    try:
        return load_settings(clickhouse=to, **dict.fromkeys(own)).clickhouse
    except OperatorError as error:
        reason = str(error).partition(": ")[2]
        raise typer.BadParameter(f"--to: {reason}") from error


def _change(here: "Side", forget: str | None, *, json: bool) -> None:
    from pipeline.exchange.foreign import forget as forget_cluster  # noqa: PLC0415
    from pipeline.exchange.identity import new_identity as make  # noqa: PLC0415

    here.check_migrated()
    if forget is None:
        identity = make(here)
        document: dict[str, Any] = {"identity": identity}
        line = f"this cluster is {identity} now"
    else:
        builds = forget_cluster(here, forget)
        document = {"cluster": forget, "builds": builds}
        line = f"forgot what {printable(forget)} sent"
    print_json(document) if json else write_line(line)


def _run(
    here: "Side", there: "Side", settings: "Settings", interval_s: float | None, *, json: bool
) -> None:
    from pipeline.exchange.exchange import Exchange  # noqa: PLC0415 - brings pyarrow
    from pipeline.exchange.running import Running  # noqa: PLC0415
    from pipeline.interrupts import Interrupts, StoppedError  # noqa: PLC0415

    clock = SystemClock()
    # These log what they raise as well.
    for name in ("clickhouse_connect", "urllib3"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    passes = Exchange(here, there, settings.longest_query_s)
    told: list[Passed] = []

    def tell(passed: "Passed") -> None:
        told[:] = [passed]
        if not json:
            write_line(line_of(passed, clock.now_ms()))
            sys.stdout.flush()

    def wait(seconds: float) -> bool:
        threading.Event().wait(seconds)
        return True

    if interval_s is None:
        tell(passes.run(check=True))
    else:
        # A pass may be cut short anywhere.
        with Interrupts(clock) as interrupts, suppress(StoppedError), interrupts.waiting():
            Running(passes, clock, wait, interval_s).run(tell, print_error)
    if json:
        print_json(document_of(told[0], clock.now_ms()) if told else {"cluster": None})


def document_of(passed: "Passed", now_ms: int) -> dict[str, Any]:
    """The last pass as a JSON document."""
    return {
        "cluster": passed.cluster,
        "build": passed.build,
        "rows": passed.rows,
        "behind_ms": _behind_ms(passed, now_ms),
        "declared": passed.declared,
        "mended": [f"{place.table} {place.day}".strip() for place in passed.mended],
        "removed": len(passed.removed),
        "dropped_builds": len(passed.dropped_builds),
    }


def line_of(passed: "Passed", now_ms: int) -> str:
    """A pass in one line for people."""
    behind_ms = _behind_ms(passed, now_ms)
    behind = "nothing counted yet" if behind_ms is None else f"{behind_ms / 1000:.1f} s behind"
    more = [
        f"build {passed.build} is read there now" if passed.declared else "",
        f"{len(passed.removed):,} removed" if passed.removed else "",
        f"{len(passed.dropped_builds)} old build dropped" if passed.dropped_builds else "",
    ]
    return ", ".join([amount(passed.rows, "row"), behind, *filter(None, more)])


def _behind_ms(passed: "Passed", now_ms: int) -> int | None:
    return max(0, now_ms - passed.log_ms) if passed.log_ms > 0 else None
