"""`tally reset`: bring a counter, or one of its windows, to zero by an audited correction."""

from typing import Annotated

import typer

from pipeline.cli.adjust import (
    GrainOfWindowOption,
    IdOption,
    JsonOption,
    RegionOption,
    WaitOption,
    WhoOption,
    WhyOption,
    WindowOption,
    draft,
)
from pipeline.cli.adjusting import Adjusting, connected
from pipeline.cli.output import print_json
from pipeline.cli.printable import printable, write_line


def register(app: typer.Typer) -> None:
    app.command("reset")(reset)


def reset(
    counter: Annotated[str, typer.Argument(help="family:key, for instance likes:post-42")],
    why: WhyOption = None,
    who: WhoOption = None,
    window: WindowOption = None,
    grain: GrainOfWindowOption = None,
    region: RegionOption = "",
    id_: IdOption = None,
    wait: WaitOption = False,
    json: JsonOption = False,
) -> None:
    """Bring a counter to zero: an adjustment by what it has at this moment, taken away.

    What is counted from now on counts on; windows keep what they have, unless one is named.

    Example: `tally reset likes:post-42 --why "new contest"`
    """
    from pipeline.adjustments.lines import Line  # noqa: PLC0415 - brings pydantic
    from pipeline.adjustments.values import stored, target_of, values  # noqa: PLC0415

    asked = draft(counter, 1, why=why, who=who, window=window, grain=grain, region=region, id_=id_)
    _, reads = connected()
    if stored(reads, [asked]):
        _nothing(json, f"{printable(asked.id or '')} was stored before: nothing changed", stored=1)
        return
    value = values(reads, [asked]).get(target_of(asked), 0)
    if value == 0:
        _nothing(json, f"{printable(counter)} is 0: there is nothing to reset", stored=0)
        return
    wanted = draft(
        counter, -value, why=why, who=who, window=window, grain=grain, region=region, id_=asked.id
    )
    Adjusting(json=json, dry_run=False, wait=wait).run([Line(1, wanted)], [])


def _nothing(json: bool, text: str, *, stored: int) -> None:
    if json:
        print_json({"written": 0, "stored_before": stored, "adjustments": [], "receipt": ""})
    else:
        write_line(text)
