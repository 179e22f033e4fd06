"""`tally restore`: a data folder from a backup."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from pipeline.cli.output import console, print_json
from pipeline.clock import SystemClock


def register(app: typer.Typer) -> None:
    app.command("restore")(restore)


def restore(
    source: Annotated[Path, typer.Argument(metavar="FILE", help="What `tally backup` wrote.")],
    data: Annotated[Path, typer.Option(help="A new or an empty folder.")] = Path(".tally"),
    json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Make a data folder of a backup, for `tally up --data` to go on with.

    Every file is checked. A folder that is not empty is refused, and so is a backup that is damaged
    or that another version of Tally made, if this one cannot read it.

    Example: `tally restore backups/monday.tar --data restored`
    """
    from pipeline.backup.restoring import restore as bring_back  # noqa: PLC0415
    from pipeline.cli.steps import Steps  # noqa: PLC0415
    from pipeline.reads.moments import rfc3339  # noqa: PLC0415

    clock = SystemClock()
    began_s = clock.monotonic_s()
    with Steps(sys.stderr, clock, silent=json) as steps:
        made = bring_back(source, data, steps)
    took_s = clock.monotonic_s() - began_s
    if json:
        print_json(
            {
                "data": str(data),
                "bytes": made.size_bytes,
                "files": len(made.items),
                "seconds": round(took_s, 3),
                "began_ms": made.began_ms,
                "tally": made.tally,
            }
        )
        return
    console().print(
        f"{data}: {made.size_bytes / 1e6:,.1f} MB, {len(made.items):,} files, {took_s:.1f} s; "
        f"as of {rfc3339(made.began_ms)}"
    )
    console().print(f"Go on with: tally up --data {data}")
