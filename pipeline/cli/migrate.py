"""`tally migrate`: the numbered DDL to ClickHouse."""

from typing import Annotated

import typer

from pipeline.cli.output import console, print_json


def register(app: typer.Typer) -> None:
    app.command("migrate")(migrate)


def migrate(
    show: Annotated[
        bool, typer.Option("--show", help="Print all statements instead; asks no server.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Apply the numbered DDL that this ClickHouse has not seen yet. Workers do it at start, too.

    With TALLY_CLICKHOUSE_CLUSTER the tables are those of a cluster: replicated, and distributed
    over its shards.

    Example: `TALLY_CLICKHOUSE=http://clickhouse:8123 tally migrate`
    """
    from pipeline.clickhouse import connect  # noqa: PLC0415 - brings the ClickHouse client
    from schemas.migrate import migrate as apply  # noqa: PLC0415
    from schemas.settings import load_settings  # noqa: PLC0415

    if show:
        _show(json=json)
        return
    applied = [migration.name for migration in apply(connect(load_settings().clickhouse))]
    if json:
        print_json({"applied": applied})
        return
    for name in applied:
        console().print(f"applied {name}")
    if not applied:
        console().print("nothing to apply")


def _show(*, json: bool) -> None:
    from schemas.cluster_sql import cluster_statements  # noqa: PLC0415
    from schemas.migrate import all_statements  # noqa: PLC0415 - brings the ClickHouse client
    from schemas.settings import load_settings  # noqa: PLC0415

    statements = all_statements()
    if (cluster := load_settings().clickhouse.cluster) is not None:
        statements = [made for one in statements for made in cluster_statements(one, cluster)]
    if json:
        print_json({"statements": statements})
        return
    for statement in statements:
        console().print(f"{statement};\n")
