"""`tally builds`: which countings of the log there are; drop one, turn back to one."""

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from pipeline.cli.output import console, print_json
from pipeline.cli.printable import write_line
from pipeline.clock import SystemClock

if TYPE_CHECKING:
    from pipeline.builds.listing import Build


def register(app: typer.Typer) -> None:
    app.command("builds")(builds)


def builds(
    drop: Annotated[
        int | None, typer.Option(min=1, help="Forget this build.", show_default=False)
    ] = None,
    back: Annotated[
        bool, typer.Option("--back", help="Turn back to the build that was live before.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> int:
    """Which countings of the log there are, and which one is live.

    --back counts what the earlier build has missed since, then swaps: as `tally replay --build N
    --swap` does. --drop forgets a build's rows, its offsets and its changelog.

    Example: `tally builds --drop 1`
    """
    from pipeline.builds.drop import drop as forget  # noqa: PLC0415 - brings the clients
    from pipeline.builds.listing import Builds  # noqa: PLC0415
    from pipeline.cli.replay import replay  # noqa: PLC0415
    from pipeline.clickhouse import connect  # noqa: PLC0415
    from schemas.settings import load_settings  # noqa: PLC0415

    if drop is not None and back:
        raise typer.BadParameter("give --drop or --back, not both")
    settings = load_settings()
    clock, client = SystemClock(), connect(settings.clickhouse)
    listing = Builds(settings.kafka, client, clock)
    if back:
        return replay(build=listing.previous(), swap=True, json=json)
    if drop is not None:
        dropped: dict[str, None] = {}
        forget(settings.kafka, client, drop, clock, dropped.setdefault)
        if json:
            print_json({"dropped": drop})
        else:
            write_line(f"build {drop} is dropped: {', '.join(dropped)}")
        return 0
    found = listing.all()
    if json:
        print_json({"builds": [one.document() for one in found]})
    else:
        _print(found)
    return 0


def _print(found: "list[Build]") -> None:
    from rich.table import Table  # noqa: PLC0415

    table = Table(box=None, pad_edge=False)
    for name in ("build", "state", "behind", "workers", "rows", "size", "counts", "note"):
        table.add_column(name, justify="right" if name in {"behind", "rows", "size"} else "left")
    for one in found:
        table.add_row(
            str(one.build),
            one.state,
            f"{one.behind:,}",
            str(one.workers),
            f"{one.rows:,}",
            f"{one.bytes / 1e6:,.1f} MB",
            _counts(one),
            one.note,
        )
    console().print(table)


def _counts(one: "Build") -> str:
    """From when on it counts by itself."""
    if one.rebuild is None or not one.rebuild.counts_from_ms:
        return "the whole log"
    day = datetime.fromtimestamp(one.rebuild.counts_from_ms / 1000, UTC)
    return f"from {day:%Y-%m-%d}, earlier from build {one.rebuild.base}"
