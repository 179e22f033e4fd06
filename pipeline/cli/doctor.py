"""`tally doctor`: is everything as it should be, and if not, what to do."""

from pathlib import Path
from typing import Annotated

import typer

from pipeline.cli.output import console, print_json
from pipeline.clock import SystemClock

FAILED = 1
STYLES = {"ok": "green", "warn": "yellow", "fail": "bold red"}


def register(app: typer.Typer) -> None:
    app.command("doctor")(doctor)


def doctor(
    data: Annotated[Path, typer.Option(help="The data folder of `tally up`.")] = Path(".tally"),
    json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Look at ports, disk, versions, clocks, topics and rules; each with what to do about it.

    The exit code is 1 when something fails. Warnings do not count.

    Example: `tally doctor --data .tally --json`
    """
    from pipeline.doctor.doctor import examine  # noqa: PLC0415 - brings the clients
    from schemas.settings import load_settings  # noqa: PLC0415

    findings = []
    for finding in examine(load_settings(), data, SystemClock()):
        findings.append(finding)
        if not json:
            line = f"{finding.state:<4}  {finding.name}: {finding.detail}"
            console().print(line, style=STYLES[finding.state] if finding.state != "ok" else None)
            if finding.to_do:
                console().print(f"      {finding.to_do}")
    failed = [finding for finding in findings if finding.state == "fail"]
    if json:
        document = [finding._asdict() for finding in findings]
        print_json({"healthy": not failed, "findings": document})
    if failed:
        raise typer.Exit(FAILED)
