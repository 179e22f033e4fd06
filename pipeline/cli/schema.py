"""`tally schema`: the JSON Schema of events."""

import typer

from pipeline.cli.output import print_json


def register(app: typer.Typer) -> None:
    app.command("schema")(schema)


def schema() -> None:
    """The JSON Schema of an event, as one JSON document."""
    from schemas.events import event_json_schema  # noqa: PLC0415 - brings pydantic

    print_json(event_json_schema())
