"""`tally adjust`: audited corrections, one or a file of them."""

import getpass
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated
from uuid import uuid4

import typer

from pipeline.cli.adjusting import Adjusting
from pipeline.cli.count import WAIT_S, GrainOption
from pipeline.cli.times import moment_ms
from pipeline.errors import OperatorError

if TYPE_CHECKING:
    from schemas.adjustments import Draft

WhyOption = Annotated[str | None, typer.Option(help="Why; it is kept for ever.")]
WhoOption = Annotated[
    str | None, typer.Option(help="Who makes it; the user of this machine if left out.")
]
WindowOption = Annotated[
    str | None, typer.Option(help="Only the window that begins at this time (UTC).")
]
GrainOfWindowOption = Annotated[GrainOption | None, typer.Option(help="The size of that window.")]
RegionOption = Annotated[str, typer.Option(help="Where; left out, it is of no known region.")]
IdOption = Annotated[
    str | None, typer.Option("--id", help="The same id of a counter counts once; made if left out.")
]
WaitOption = Annotated[
    bool, typer.Option("--wait", help=f"Until answers have it; for {WAIT_S:g} s at most.")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]


def register(app: typer.Typer) -> None:
    app.command("adjust")(adjust)


def adjust(
    counter: Annotated[
        str | None, typer.Argument(help="family:key, for instance likes:post-42")
    ] = None,
    by: Annotated[
        int | None, typer.Option(help="How much to add; below zero it is taken away.")
    ] = None,
    why: WhyOption = None,
    who: WhoOption = None,
    window: WindowOption = None,
    grain: GrainOfWindowOption = None,
    region: RegionOption = "",
    id_: IdOption = None,
    file: Annotated[
        Path | None,
        typer.Option(help="Many: JSON lines, or CSV with the names in its first line; - is stdin."),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print before and after, write nothing.")
    ] = False,
    wait: WaitOption = False,
    json: JsonOption = False,
) -> None:
    """Add an audited correction to a counter's total, or to one of its windows.

    It is a record in the log, with who made it, why, and what was there before and after; a replay
    has it again. One of a window is in that window, in those that contain it and in the total; one
    without is in the total alone. Trends never have it.

    A file has the fields counter, by, why, who, grain, window, region, id; those of a line come
    before the options. It is checked as a whole: with a mistake in it nothing is written. The same
    file counts once, however often it is run.

    Example: `tally adjust hashtag:#cats --by -17 --why "bought followers, case 811"`
    """
    from pipeline.adjustments.lines import Line, read_lines  # noqa: PLC0415 - brings pydantic

    if file is not None:
        given = (counter, by, window, grain, region or None, id_)
        if any(one is not None for one in given):
            raise typer.BadParameter("--file takes these from its lines; give --who and --why only")
        lines, mistakes = read_lines(_content(file), who=who or user(), why=why)
        name = "the lines" if str(file) == "-" else str(file)
        Adjusting(json=json, dry_run=dry_run, wait=wait, source=name).run(lines, mistakes)
        return
    if counter is None or by is None:
        raise typer.BadParameter("give COUNTER and --by N, or --file FILE")
    wanted = draft(
        counter, by, why=why, who=who, window=window, grain=grain, region=region, id_=id_
    )
    Adjusting(json=json, dry_run=dry_run, wait=wait).run([Line(1, wanted)], [])


def user() -> str:
    """Who runs this, by the operating system."""
    try:
        return getpass.getuser()
    except (KeyError, OSError) as error:
        raise typer.BadParameter("this machine does not say who you are: give --who") from error


def draft(
    counter: str,
    by: int,
    *,
    why: str | None,
    who: str | None,
    window: str | None,
    grain: GrainOption | None,
    region: str,
    id_: str | None,
) -> "Draft":
    """What options ask for. Raises BadInputError, or tells wrong usage."""
    from schemas.adjustments import check_draft  # noqa: PLC0415 - brings pydantic

    if why is None or not why.strip():
        raise typer.BadParameter("say --why: it is kept for ever")
    if (window is None) != (grain is None):
        raise typer.BadParameter("--window and --grain go together")
    return check_draft(
        {
            "counter": counter,
            "by": by,
            "region": region,
            "grain": grain.value if grain else None,
            "window": None if window is None else moment_ms(window),
            "who": who or user(),
            "why": why,
            "id": id_ or uuid4().hex,
        }
    )


def _content(file: Path) -> bytes:
    try:
        return sys.stdin.buffer.read() if str(file) == "-" else file.read_bytes()
    except OSError as error:
        raise OperatorError(f"{file} cannot be read: {error.strerror}") from error
