"""`tally backup`: a copy of the embedded data, while everything runs or not."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from pipeline.cli.output import console, print_json
from pipeline.clock import SystemClock


def register(app: typer.Typer) -> None:
    app.command("backup")(backup)


def backup(
    target: Annotated[
        Path, typer.Argument(metavar="FILE_OR_FOLDER", help="Where to; in a folder, named by time.")
    ],
    data: Annotated[Path, typer.Option(help="The folder of `tally up`.")] = Path(".tally"),
    json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Copy the embedded data into one file, while everything runs or not.

    Everything that was acknowledged before it began is in it. `tally restore` brings it back.

    Example: `tally backup backups/monday.tar --data .tally`
    """
    # Imported here: brings msgspec and SQLite, which `tally --help` can do without.
    from pipeline.backup.taking import take_backup  # noqa: PLC0415
    from pipeline.cli.steps import Steps  # noqa: PLC0415

    clock = SystemClock()
    began_s = clock.monotonic_s()
    with Steps(sys.stderr, clock, silent=json) as steps:
        made = take_backup(data, target, clock, steps)
    took_s = clock.monotonic_s() - began_s
    if json:
        print_json(
            {
                "file": str(made.path),
                "bytes": made.size_bytes,
                "files": len(made.manifest.items),
                "seconds": round(took_s, 3),
                "began_ms": made.manifest.began_ms,
                "ended_ms": made.manifest.ended_ms,
                "writers_held_ms": made.held_ms,
                "running": made.manifest.was_running,
                "tally": made.manifest.tally,
            }
        )
        return
    console().print(
        f"{made.path}: {made.size_bytes / 1e6:,.1f} MB, {len(made.manifest.items):,} files, "
        f"{took_s:.1f} s"
    )
