"""`tally trending`: the counters of a family that have clearly more than they should."""

import sys
from collections.abc import Iterator
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from pipeline.cli.board import BoardRow
from pipeline.cli.output import console, print_json
from pipeline.cli.times import moment_ms
from pipeline.cli.top import (
    Asking,
    FamilyArgument,
    JsonOption,
    KOption,
    RegionOption,
    WatchOption,
    check_usage,
    print_frame,
    where_of,
)
from pipeline.cli.watch import Frame, WatchCommand, watch

if TYPE_CHECKING:
    from pipeline.reads.trends import TrendingAnswer, TrendingCounter

ROOMY_CELLS = 110
"""Of a terminal this wide, the figures leave enough for names and bars."""

_HORIZONS = {1: "a minute", 60: "an hour"}


class KindOption(StrEnum):
    """Why a counter is listed."""

    RISING = "rising"
    NEW = "new"
    TOP = "top"


def register(app: typer.Typer) -> None:
    app.command("trending", cls=WatchCommand)(trending)


def trending(
    family: FamilyArgument,
    k: KOption = 10,
    region: RegionOption = "*",
    now: Annotated[
        bool, typer.Option("--now", help="By the minute that is not over yet: provisional.")
    ] = False,
    at: Annotated[
        str | None, typer.Option("--at", help="By the minute that this time (UTC) is in.")
    ] = None,
    kind: Annotated[
        list[KindOption] | None,
        typer.Option(help="Only these: rising, new or top. May be given several times."),
    ] = None,
    watch_s: WatchOption = None,
    json: JsonOption = False,
) -> None:
    """The counters of a family that have clearly more than they should have.

    By the last minute that is over. `rising` ones are above what is usual, `new` ones have nothing
    to be compared with, and `top` ones do not trend, but lead by count.

    Example: `tally trending hashtag --region eu --watch`
    """
    check_usage(family, watch_s, json)
    if now and at is not None:
        raise typer.BadParameter("give --now or --at, not both")
    at_ms = None if at is None else moment_ms(at)
    asking = Asking()

    def ask() -> "TrendingAnswer":
        from pipeline.reads import trends  # noqa: PLC0415 - brings the client

        kinds = tuple(one for one in trends.KINDS if not kind or one in kind)
        question = trends.Question(family, k, region, at_ms, now, kinds)
        return trends.trending(asking.reads(), question)

    if watch_s is not None:
        watch(lambda: trending_frame(ask(), roomy()), watch_s, asking.clock)
        return
    answer = ask()
    if json:
        print_json(answer.document())
        return
    print_frame(trending_frame(answer, roomy()), asking.clock)


def roomy() -> bool:
    """Whether there is room for all figures in words."""
    return not sys.stdout.isatty() or console().width >= ROOMY_CELLS


def trending_frame(answer: "TrendingAnswer", in_words: bool) -> Frame:
    """The answer as it is shown. The longer the bar, the more exceptional; pure."""
    minute = "no minute" if answer.window is None else f"minute {answer.window}"
    title = f"{answer.family} trending, {where_of(answer.region)}, {minute}"
    if answer.provisional:
        title += ", provisional"
    rows = [
        BoardRow(one.counter, one.score, figures(one, answer.window, in_words), place=one.rank)
        for one in answer.trending
    ]
    return Frame(title, rows, answer.known.at_ms, tuple(_notes(answer)))


def figures(one: "TrendingCounter", window: str | None, in_words: bool) -> tuple[str, ...]:
    """What there is to say of a counter: why it is listed, how much it had, since when."""
    usual = f"{one.expected:,.0f}" if one.expected >= 10 else f"{one.expected:.1f}"
    amount = f"{one.observed:,} instead of {usual}"
    if not in_words:
        return one.kind, amount, f"{one.score:.1f}"
    horizon = _HORIZONS.get(one.horizon_minutes, f"{one.horizon_minutes} minutes")
    return one.kind, f"{amount} in {horizon}", f"score {one.score:.1f}", _since(one.entered, window)


def _since(entered: str | None, window: str | None) -> str:
    """The time of day, with its date where that is another than the window's."""
    if entered is None:
        return ""
    day, _, time = entered.partition("T")
    when = f"{time[:5]}Z"
    return f"since {when}" if (window or "").startswith(day) else f"since {day} {when}"


def _notes(answer: "TrendingAnswer") -> Iterator[str]:
    """What a reader should know, a line each."""
    if answer.provisional and answer.window is not None:
        yield "provisional: this minute is not over; nobody enters or leaves by it"
    if answer.known.at_ms is not None and not answer.known.complete:
        yield "not complete: a shard was not flushed lately; see tally status"
    yield from answer.remarks
