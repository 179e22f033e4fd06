"""Times as people type them, wrong usage if they are none: see `pipeline.reads.asked`."""

from typing import TYPE_CHECKING

import typer

from pipeline.errors import BadInputError

if TYPE_CHECKING:
    from pipeline.reads.spans import Span


def duration_ms(text: str) -> int:
    """Milliseconds of `90s`, `60m`, `24h` or `7d`. Wrong usage otherwise."""
    from pipeline.reads import asked  # noqa: PLC0415 - brings pydantic

    try:
        return asked.duration_ms(text)
    except BadInputError as error:
        raise typer.BadParameter(str(error)) from error


def moment_ms(text: str) -> int:
    """Milliseconds since 1970; a text without an offset is taken as UTC. Wrong usage otherwise."""
    from pipeline.reads import asked  # noqa: PLC0415 - brings pydantic

    try:
        return asked.moment_ms(text)
    except BadInputError as error:
        raise typer.BadParameter(str(error)) from error


def asked_span(
    last: str | None, since: str | None, until: str | None, now_ms: int
) -> "Span | None":
    """The time asked for, None for all of it. Wrong usage if it is no time, or asked for twice."""
    from pipeline.reads import asked  # noqa: PLC0415 - brings pydantic

    if last is not None and since is not None:
        raise typer.BadParameter("give --last or --since, not both")
    try:
        return asked.asked_span(last, since, until, now_ms)
    except BadInputError as error:
        raise typer.BadParameter(str(error)) from error
