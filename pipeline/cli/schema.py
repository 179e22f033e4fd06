"""`tally schema`: the JSON Schema of events, or of commands."""

from typing import Annotated

import typer

from pipeline.cli.output import print_json


def register(app: typer.Typer) -> None:
    app.command("schema")(schema)


def schema(
    strict: Annotated[
        bool, typer.Option("--strict", help="Of a command to a strict counter instead.")
    ] = False,
    json: Annotated[  # noqa: ARG001 - what it asks for is what there is
        bool, typer.Option("--json", help="As in every command; it is JSON without it, too.")
    ] = False,
) -> None:
    """The JSON Schema of an event, as one JSON document.

    Example: `tally schema --strict`
    """
    from schemas.events import event_json_schema  # noqa: PLC0415 - brings pydantic
    from schemas.strict import command_json_schema  # noqa: PLC0415

    print_json(command_json_schema() if strict else event_json_schema())
