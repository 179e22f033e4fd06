"""`tally explain`: why a counter has the value it has."""

from typing import TYPE_CHECKING, Annotated

import typer

from pipeline.amounts import amount
from pipeline.cli.count import GrainOption
from pipeline.cli.names import check_counter
from pipeline.cli.output import print_json
from pipeline.cli.printable import printable, write_line
from pipeline.cli.times import asked_span, moment_ms
from pipeline.clock import SystemClock

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pipeline.reads.explain import Explanation, SketchedPart
    from pipeline.reads.spans import Span


def register(app: typer.Typer) -> None:
    app.command("explain")(explain)


def explain(
    counter: Annotated[str, typer.Argument(help="family:key, for instance likes:post-42")],
    window: Annotated[
        str | None, typer.Option(help="Only the window that this time (UTC) is in.")
    ] = None,
    by: Annotated[GrainOption, typer.Option(help="The size of that window.")] = GrainOption.MINUTE,
    last: Annotated[str | None, typer.Option(help="Only the last 60m, 24h, 7d, ...")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Why this number: shards, cells, offsets, late, duplicates, adjustments.

    Example: `tally explain likes:post-42 --window 2026-11-16T08:00 --by 1h`
    """
    from pipeline.clickhouse import connect  # noqa: PLC0415 - brings the ClickHouse client
    from pipeline.reads.explain import explain as ask  # noqa: PLC0415
    from pipeline.reads.reads import Reads  # noqa: PLC0415
    from schemas.settings import load_settings  # noqa: PLC0415 - brings pydantic

    check_counter(counter)
    if window is not None and last is not None:
        raise typer.BadParameter("give --window or --last, not both")
    clock = SystemClock()
    span = asked_span(last, None, None, clock.now_ms()) if window is None else _window(window, by)
    settings = load_settings()
    found = ask(Reads(connect(settings.clickhouse), clock), counter, span)
    if json:
        print_json(found.document())
        return
    for line in (_headline(found), *_shard_lines(found), *_lines(found)):
        write_line(line)


def _window(text: str, by: GrainOption) -> "Span":
    from pipeline.reads.spans import Span, window_of  # noqa: PLC0415 - brings pydantic
    from schemas.rules import GRAIN_MS  # noqa: PLC0415 - brings pydantic

    since_ms = window_of(moment_ms(text), by.value)
    return Span.of(since_ms, since_ms + GRAIN_MS[by.value]) or Span()


def _headline(found: "Explanation") -> str:
    when = ""
    if found.since is not None:
        when = f" from {found.since}" + (f" to {found.until}" if found.until else " on")
    net = f" (net {found.net:,})" if found.net < 0 else ""
    adjusted = f"{found.adjustments.by:+,} by adjustments, " if found.adjustments.count else ""
    return (
        f"{printable(found.counter)} is {found.total:,}{net}{when}: {found.p:,} added, "
        f"{found.n:,} taken away, {adjusted}{_seen_by(found)}"
    )


def _seen_by(found: "Explanation") -> str:
    shards = {part.shard: part.minutes for part in found.shards}
    if not shards:
        return "seen by no shard"
    offsets = [
        f"{minutes.through:,} of shard {shard}" for shard, minutes in shards.items() if minutes
    ]
    noun = "1 shard" if len(shards) == 1 else f"{len(shards)} shards"
    return f"seen by {noun}" + (f" up to offset {', '.join(offsets)}" if offsets else "")


def _shard_lines(found: "Explanation") -> "Iterator[str]":
    for part in found.shards:
        cells = part.minutes
        late = 0 if cells is None else cells.late_p + cells.late_n
        yield (
            f"  shard {part.shard} ({printable(part.replica)}): {part.p:,} added, {part.n:,} taken "
            f"away; {late:,} of it late, {amount(part.duplicates, 'duplicate')} skipped"
        )
        flushed = "none" if part.flushed_through is None else f"{part.flushed_through:,}"
        if cells is None:
            yield "      its minutes are gone, and with them slots and offsets"
            continue
        yield (
            f"      {amount(cells.cells, 'cell')} in {amount(cells.slots, 'slot')}, windows "
            f"{cells.first_window} to {cells.last_window}, through offset {cells.through:,} "
            f"(flushed: {flushed})"
        )


def _sketched_line(part: "SketchedPart") -> str:
    why = (
        "its family is sketched, and has no cells of its counters"
        if part.by_rule
        else "its family had more counters than its cap allows, and what spilled is sketched"
    )
    return (
        f"sketched      {part.value:,} of it are estimated, between {part.low:,} and "
        f"{part.high:,}: {why}"
    )


def _adjustments(found: "Explanation") -> str:
    made = found.adjustments
    if not made.count:
        return "none"
    noun = "1 adjustment" if made.count == 1 else f"{made.count:,} adjustments"
    return f"{noun}, {made.by:+,} together: see `tally history {printable(found.counter)}`"


def _lines(found: "Explanation") -> "Iterator[str]":
    yield f"build         {found.build}"
    yield (
        f"late          {found.late_p:,} added, {found.late_n:,} taken away more than 10 minutes "
        "after their window, by log time"
    )
    yield f"duplicates    {found.duplicates:,} skipped: their id or member was counted before"
    rolled = [part.rolled_up for part in found.shards if part.rolled_up is not None]
    if rolled:
        yield (
            f"rolled up     {sum(part['p'] for part in rolled):,} added, "
            f"{sum(part['n'] for part in rolled):,} taken away; in minutes "
            f"{sum(part.minutes.p for part in found.shards if part.minutes):,} and "
            f"{sum(part.minutes.n for part in found.shards if part.minutes):,}"
        )
    letters = found.dead_letters
    why = f", the last as: {printable(letters.last_reason)}" if letters.last_reason else ""
    yield f"dead letters  {letters.count:,} name it{why}"
    if found.sketched is not None:
        yield _sketched_line(found.sketched)
    elif found.spilled_to is None:
        yield "capped        no"
    else:
        yield (
            "capped        its family had more counters than its cap allows: part of it may be "
            f"under {printable(found.spilled_to)}"
        )
    yield f"adjustments   {_adjustments(found)}"
    yield from found.remarks
