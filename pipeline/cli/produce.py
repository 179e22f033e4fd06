"""`tally produce`: NDJSON to the topic."""

from pathlib import Path
from typing import Annotated

import typer

from pipeline.cli.output import console, print_error, print_json
from pipeline.clock import SystemClock
from pipeline.errors import BadInputError, TryAgainError

REPORTED_LINES_MAX = 20


def register(app: typer.Typer) -> None:
    app.command("produce")(produce)


def produce(
    file: Annotated[
        typer.FileBinaryRead, typer.Argument(help="NDJSON, one event per line; - is stdin.")
    ],
    frames: Annotated[
        bool, typer.Option("--frames", help="Pack events into Arrow frames: many per message.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """NDJSON to the topic: checks each line, sends it, and waits until Kafka has confirmed.

    A line that is no event is reported with its number and not sent; the others are. The exit code
    is 0 only if every line was sent.

    Example: `echo '{"counter": "likes:post-42"}' | tally produce -`
    """
    from pipeline.produce import produce_lines  # noqa: PLC0415 - brings pyarrow
    from pipeline.sender import Sender  # noqa: PLC0415
    from schemas.settings import load_settings  # noqa: PLC0415

    refused: list[dict[str, object]] = []

    def on_refused(line: int, reason: str) -> None:
        if len(refused) < REPORTED_LINES_MAX:
            refused.append({"line": line, "reason": reason})
            print_error(f"{_name(file)}:{line}: {reason}")

    sender = Sender(load_settings().kafka)
    result = produce_lines(file, sender, SystemClock(), on_refused, frames=frames)
    if json:
        print_json(
            {
                "sent": result.sent,
                "refused": result.refused,
                "unknown": result.unknown,
                "reasons": refused,
            }
        )
    elif result.sent:
        console().print(f"sent {result.sent} events")
    if result.unknown:
        raise TryAgainError(
            f"{result.unknown} events were not confirmed: Kafka may have them or not; give "
            "events an id before sending them again, so that each is counted once"
        )
    if result.refused:
        raise BadInputError(f"{result.refused} lines were refused and not sent")


def _name(file: typer.FileBinaryRead) -> str:
    name = str(getattr(file, "name", "-"))
    return "line" if name in {"-", "<stdin>"} else Path(name).name
