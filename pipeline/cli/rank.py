"""`tally rank`: a counter's place in its family."""

from typing import TYPE_CHECKING, Annotated

import typer

from pipeline.cli.names import check_counter
from pipeline.cli.output import print_json
from pipeline.cli.printable import printable, write_line
from pipeline.cli.top import (
    Asking,
    AtOption,
    JsonOption,
    LastOption,
    RegionOption,
    WindowOption,
    asked_period,
    notes_of,
    title_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pipeline.reads.ranking import RankedCounter
    from pipeline.reads.top import RankAnswer


def register(app: typer.Typer) -> None:
    app.command("rank")(rank)


def rank(
    counter: Annotated[str, typer.Argument(help="family:key, for instance likes:post-42")],
    region: RegionOption = "*",
    window: WindowOption = None,
    at: AtOption = None,
    last: LastOption = None,
    json: JsonOption = False,
) -> None:
    """A counter's place in its family in the last hour, or in another time.

    Says of how many, and which counters are just above and below. One that was not counted in that
    time has no rank.

    Example: `tally rank hashtag:#cats --window 1d`
    """
    check_counter(counter)
    period = asked_period(window, at, last)
    from pipeline.reads.top import rank as place  # noqa: PLC0415 - brings the ClickHouse client

    answer = place(Asking().reads(), counter, period, region=region)
    if json:
        print_json(answer.document())
        return
    for line in rank_lines(answer):
        write_line(line)


def rank_lines(answer: "RankAnswer") -> "Iterator[str]":
    """The answer in words, one line for the place and one for each neighbour."""
    place = "no rank among" if answer.rank is None else f"rank {answer.rank:,} of"
    yield (
        f"{printable(answer.counter)}  {place} {answer.of:,}, count {answer.count:,}"
        f"{_error(answer.error)}  ({printable(title_of(answer.ranking))})"
    )
    if answer.above is not None:
        yield f"  above  {_neighbour(answer.above)}"
    if answer.below is not None:
        yield f"  below  {_neighbour(answer.below)}"
    for note in notes_of(answer.ranking):
        yield f"  {printable(note)}"


def _neighbour(one: "RankedCounter") -> str:
    count = f"{one.count:,}{_error(one.error)}"
    return f"{one.rank:,}  {printable(one.counter)}  {count}"


def _error(error: int) -> str:
    return f" ±{error:,}" if error else ""
