"""`tally top`: the greatest counters of a family."""

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from pipeline.cli.board import BoardRow
from pipeline.cli.count import GrainOption
from pipeline.cli.names import check_family
from pipeline.cli.output import console, print_json
from pipeline.cli.printable import write_line
from pipeline.cli.times import duration_ms, moment_ms
from pipeline.cli.watch import EVERY_S, Frame, WatchCommand, frame_lines, signs_of, watch
from pipeline.clock import Clock, SystemClock

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pipeline.reads.family_windows import Period
    from pipeline.reads.reads import Reads
    from pipeline.reads.top import Ranking, TopAnswer

K_MAX = 10_000

FamilyArgument = Annotated[str, typer.Argument(help="The part of counters before the first colon.")]
KOption = Annotated[int, typer.Option("-k", min=1, max=K_MAX, help="So many of them.")]
RegionOption = Annotated[str, typer.Option(help="Only this region; * is all, '' is unknown.")]
WindowOption = Annotated[
    GrainOption | None, typer.Option(help="The family's newest minute, hour or day.")
]
AtOption = Annotated[
    str | None, typer.Option("--at", help="With --window: the one that this time (UTC) is in.")
]
LastOption = Annotated[
    str | None, typer.Option(help="Sliding: the last 60m, 24h, 7d, ... [default: 1h]")
]
WatchOption = Annotated[
    float | None,
    typer.Option(
        "--watch",
        metavar="[SECONDS]",
        min=0.1,
        max=86_400,
        help=f"Ask again every so many seconds, {EVERY_S:g} if none are given; Ctrl-C ends it.",
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]


def register(app: typer.Typer) -> None:
    app.command("top", cls=WatchCommand)(top)


def top(
    family: FamilyArgument,
    k: KOption = 10,
    region: RegionOption = "*",
    window: WindowOption = None,
    at: AtOption = None,
    last: LastOption = None,
    watch_s: WatchOption = None,
    json: JsonOption = False,
) -> None:
    """The greatest counters of a family in the last hour, or in another time.

    Counts are exact, of all shards, but for a sketched family; of equal ones the first by name
    leads. With --watch it is a live table, with how places changed.

    Example: `tally top hashtag -k 20 --last 24h --region eu`
    """
    check_usage(family, watch_s, json)
    period = asked_period(window, at, last)
    asking = Asking()

    def ask() -> "TopAnswer":
        from pipeline.reads.top import top as ask_top  # noqa: PLC0415 - brings the client

        return ask_top(asking.reads(), family, period, k=k, region=region)

    if watch_s is not None:
        watch(lambda: top_frame(ask()), watch_s, asking.clock)
        return
    answer = ask()
    if json:
        print_json(answer.document())
        return
    print_frame(top_frame(answer), asking.clock)


def check_usage(family: str, watch_s: float | None, json: bool) -> None:
    """Wrong usage if this is no family, or a live table is asked for as a document."""
    check_family(family)
    if json and watch_s is not None:
        raise typer.BadParameter("give --watch or --json, not both")


def print_frame(frame: Frame, clock: Clock) -> None:
    """The table once, as wide as the terminal, if it is one. Raises BrokenPipeError like print."""
    width = console().width if sys.stdout.isatty() else None
    signs = signs_of(sys.stdout.encoding)
    for line in frame_lines(None, frame, clock.now_ms(), width, signs):
        write_line(line)


class Asking:
    """The way to ClickHouse, made when it is first needed: it may come up later."""

    def __init__(self) -> None:
        self.clock = SystemClock()
        self._reads: Reads | None = None

    def reads(self) -> "Reads":
        """Blocks; raises TryAgainError while ClickHouse is away."""
        from pipeline.clickhouse import connect  # noqa: PLC0415 - brings the ClickHouse client
        from pipeline.reads.reads import Reads  # noqa: PLC0415
        from schemas.settings import load_settings  # noqa: PLC0415 - brings pydantic

        if self._reads is None:
            self._reads = Reads(connect(load_settings().clickhouse), self.clock)
        return self._reads


def asked_period(window: GrainOption | None, at: str | None, last: str | None) -> "Period":
    """The time asked for. Wrong usage if it is no time, or asked for twice."""
    from pipeline.reads.family_windows import Period  # noqa: PLC0415 - brings the client

    if window is None:
        if at is not None:
            raise typer.BadParameter("--at needs --window 1m, 1h or 1d")
        return Period() if last is None else Period(last_ms=duration_ms(last))
    if last is not None:
        raise typer.BadParameter("give --window or --last, not both")
    at_ms = None if at is None else moment_ms(at)
    return Period(grain=window.value, at_ms=at_ms)


def top_frame(answer: "TopAnswer") -> Frame:
    """The answer as it is shown. Errors have a column only where there are any."""
    erring = any(each.error for each in answer.top)
    rows = [
        BoardRow(
            each.counter,
            each.count,
            (f"{each.count:,}", *([f"±{each.error:,}"] if erring else [])),
        )
        for each in answer.top
    ]
    ranking = answer.ranking
    return Frame(title_of(ranking), rows, ranking.known.at_ms, tuple(notes_of(ranking)))


def title_of(ranking: "Ranking") -> str:
    """Which ranking this is, in words."""
    return f"{ranking.family}, {where_of(ranking.region)}, {ranking.window}"


def where_of(region: str) -> str:
    """A region in words."""
    return "all regions" if region == "*" else f"region {region or 'unknown'}"


def notes_of(ranking: "Ranking") -> "Iterator[str]":
    """What a reader should know, a line each."""
    if not ranking.known.complete:
        yield "not complete: a shard was not flushed lately; see tally status"
    if ranking.spilled_to is not None:
        yield (
            "may be wrong: the family had more counters than its cap allows, and what was counted "
            f"past it is under {ranking.spilled_to}"
        )
    yield from ranking.remarks
