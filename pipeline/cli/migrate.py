"""`tally migrate`: the numbered DDL to ClickHouse."""

from typing import Annotated

import typer

from pipeline.cli.output import console, print_json


def register(app: typer.Typer) -> None:
    app.command("migrate")(migrate)


def migrate(
    json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Apply the numbered DDL that this ClickHouse has not seen yet. Workers do it at start, too."""
    from pipeline.clickhouse import connect  # noqa: PLC0415 - brings the ClickHouse client
    from schemas.migrate import migrate as apply  # noqa: PLC0415
    from schemas.settings import load_settings  # noqa: PLC0415

    applied = [migration.name for migration in apply(connect(load_settings().clickhouse))]
    if json:
        print_json({"applied": applied})
        return
    for name in applied:
        console().print(f"applied {name}")
    if not applied:
        console().print("nothing to apply")
