"""`--watch`: a ranking that is asked for again and again, redrawn in place until Ctrl-C."""

import sys
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any

from rich.live import Live
from rich.text import Text

from pipeline.ages import age
from pipeline.cli.board import PLAIN, BoardRow, Signs, board_lines, fit
from pipeline.cli.flags import Command
from pipeline.cli.output import console, print_error
from pipeline.cli.printable import printable, write_line
from pipeline.clock import Clock
from pipeline.errors import TryAgainError

EVERY_S = 2.0
OPTION = "--watch"


class WatchCommand(Command):
    """A command whose `--watch` may be given with or without seconds."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:  # as the base: a private class
        return super().parse_args(ctx, with_seconds(args))


def with_seconds(arguments: Sequence[str]) -> list[str]:
    """The arguments with the usual seconds after a `--watch` that no number follows."""
    given = list(arguments)
    end = given.index("--") if "--" in given else len(given)
    for at in reversed(range(end)):
        if given[at] == OPTION and not _is_number(given[at + 1 : at + 2]):
            given.insert(at + 1, f"{EVERY_S:g}")
    return given


def _is_number(texts: Sequence[str]) -> bool:
    try:
        return bool([float(text) for text in texts])
    except ValueError:
        return False


@dataclass(frozen=True, slots=True)
class Frame:
    """What is shown at one moment. `as_of_ms` is None when the age of the data is not known."""

    title: str
    rows: Sequence[BoardRow]
    as_of_ms: int | None
    notes: Sequence[str] = ()


def frame_lines(
    before: Frame | None, now: Frame, now_ms: int, width: int | None, signs: Signs | None = None
) -> list[str]:
    """The title with the data's age, the ranking, and what there is to remark. Pure."""
    title = now.title if now.as_of_ms is None else f"{now.title}, {age(now_ms - now.as_of_ms)} old"
    rows = board_lines(None if before is None else before.rows, now.rows, width, signs)
    notes = [printable(note) if width is None else fit(note, width) for note in now.notes]
    return [printable(title) if width is None else fit(title, width), *rows, *notes]


def signs_of(encoding: str | None) -> Signs:
    """What the encoding of a terminal can show."""
    signs = Signs()
    try:
        f"{signs.up}{signs.down}{signs.bar}{signs.cut}".encode(encoding or "utf-8")
    except UnicodeEncodeError:
        return PLAIN
    return signs


def watch(
    ask: Callable[[], Frame],
    every_s: float,
    clock: Clock,
    pause: Callable[[float], None] = time.sleep,
) -> None:
    """Shows what `ask` says until Ctrl-C, which is the ordinary end.

    A server that is away is a line of its own, and asking goes on. On a terminal the lines are
    redrawn in place, and it is left as it was; elsewhere frames follow each other, with an empty
    line between. Blocks. Raises what `ask` raises but for TryAgainError, and BrokenPipeError.
    """
    try:
        with ExitStack() as stack:
            show = _redrawn(stack, clock) if sys.stdout.isatty() else _listed(clock)
            while True:
                try:
                    found: Frame | TryAgainError = ask()
                except TryAgainError as error:
                    found = error
                show(found)
                pause(every_s)
    except KeyboardInterrupt:
        return


def _redrawn(stack: ExitStack, clock: Clock) -> Callable[[Frame | TryAgainError], None]:
    out = console()
    live = stack.enter_context(Live(console=out, auto_refresh=False))
    shown: list[Frame] = []

    def show(found: Frame | TryAgainError) -> None:
        if isinstance(found, Frame):
            shown[:] = [*shown[-1:], found]
            before = shown[0] if len(shown) > 1 else None
        else:
            # What was known stays, and grows old.
            last = shown[-1] if shown else Frame("nothing known yet", (), None)
            before, found = None, replace(last, notes=(f"! {' '.join(str(found).split())}",))
        lines = frame_lines(before, found, clock.now_ms(), out.width, signs_of(out.encoding))
        live.update(Text("\n".join(lines), no_wrap=True, overflow="crop"), refresh=True)

    return show


def _listed(clock: Clock) -> Callable[[Frame | TryAgainError], None]:
    shown: list[Frame] = []

    def show(found: Frame | TryAgainError) -> None:
        if not isinstance(found, Frame):
            print_error(str(found))
            return
        before = shown[-1] if shown else None
        if before is not None:
            write_line("")
        for line in frame_lines(before, found, clock.now_ms(), None):
            write_line(line)
        sys.stdout.flush()
        shown[:] = [found]

    return show
