"""`tally produce`: NDJSON to the log."""

import contextlib
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, BinaryIO

import typer

from pipeline.amounts import amount
from pipeline.cli.output import console, print_error, print_json
from pipeline.clock import SystemClock
from pipeline.errors import BadInputError, TryAgainError
from pipeline.interrupts import Interrupts

if TYPE_CHECKING:
    from rich.progress import Progress as Bar

    from pipeline.produce.checking import RefusedLine
    from pipeline.produce.progress import Progress, ProgressFile
    from pipeline.produce.sending import Producing

REPORTED_LINES_MAX = 20
EXIT_INTERRUPTED = 130


def register(app: typer.Typer) -> None:
    app.command("produce")(produce)


def produce(
    file: Annotated[Path, typer.Argument(help="NDJSON, one event per line; - is stdin.")],
    frames: Annotated[
        bool, typer.Option("--frames", help="Pack events into Arrow frames: far faster.")
    ] = False,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on where an interrupted run over FILE ended.")
    ] = False,
    from_byte: Annotated[
        int | None,
        typer.Option(min=0, help="Begin at this byte of FILE, where a line begins."),
    ] = None,
    once: Annotated[
        bool,
        typer.Option("--once", help="Give lines without an id one, so that each counts once."),
    ] = False,
    timeout: Annotated[
        float, typer.Option(min=1, help="Seconds to wait for Kafka's word on a line.")
    ] = 60.0,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """NDJSON to the log: checks each line, sends it, and waits until Kafka has confirmed.

    A line that is no event is reported with its number and not sent; the others are. The exit code
    is 0 only if every line was sent. Lines are sent as they are, or packed with --frames.

    While it sends a file, FILE.tally-progress says how far it is. After Ctrl-C, or when Kafka is
    away for too long, one line says how to go on, and nothing is sent twice: lines that Kafka did
    not confirm are told, with their bytes, and passed over. After a kill -9, the lines of the last
    second or so are sent again; with --once from the beginning on, they still count once, as long
    as the id horizon of their family is not over.

    Example: `echo '{"counter": "likes:post-42"}' | tally produce -`
    """
    # Imported here since they bring pyarrow and the client, which `tally --help` can do without.
    from pipeline.produce.progress import ProgressFile  # noqa: PLC0415
    from pipeline.produce.senders import FrameSender, LineSender  # noqa: PLC0415
    from pipeline.produce.sending import Producing  # noqa: PLC0415
    from schemas.settings import load_settings  # noqa: PLC0415

    clock = SystemClock()
    reports = _Reports(file)
    with _opened(file) as source:
        kept = ProgressFile(file, clock) if file.is_file() else None
        progress = _begin(source, kept, resume=resume, from_byte=from_byte, once=once)
        sender = (FrameSender if frames else LineSender)(load_settings().kafka, timeout)
        with contextlib.closing(sender), Interrupts(clock) as interrupts:
            producing = Producing(progress, sender, clock, reports.take)
            is_done = _send(source, producing, kept, interrupts, shown=not json)
    if kept is not None and is_done:
        kept.remove()
    if json:
        print_json(_document(producing, reports))
    elif progress.sent and is_done:
        console().print(f"sent {amount(progress.sent, 'event')}")
    _end(producing, is_done, f"tally produce {shlex.quote(str(file))} --resume" if kept else None)


def _begin(
    source: BinaryIO,
    kept: "ProgressFile | None",
    *,
    resume: bool,
    from_byte: int | None,
    once: bool,
) -> "Progress":
    from pipeline.produce import beginning  # noqa: PLC0415
    from pipeline.produce.progress import Progress  # noqa: PLC0415

    if kept is None:
        if resume or once or from_byte is not None:
            raise typer.BadParameter("--resume, --from-byte and --once need a file, not a stream")
        return Progress(0, "")
    if resume and from_byte is not None:
        raise typer.BadParameter("give --resume or --from-byte, not both")
    if resume:
        return beginning.resume(source, kept, once=once)
    if from_byte is None:
        return beginning.begin_anew(source, kept, once=once)
    try:
        return beginning.begin_at(source, from_byte, once=once)
    except BadInputError as error:
        raise typer.BadParameter(f"--from-byte: {error}") from error


def _send(
    source: BinaryIO,
    producing: "Producing",
    kept: "ProgressFile | None",
    interrupts: Interrupts,
    *,
    shown: bool,
) -> bool:
    """Whether everything was sent and confirmed. What is kept is up to date afterwards."""
    from pipeline.produce.reading import read_chunks  # noqa: PLC0415
    from pipeline.produce.sending import produce as produce_chunks  # noqa: PLC0415

    progress = producing.progress
    read_some = getattr(source, "read1", source.read)

    def read(size: int) -> bytes:
        with interrupts.waiting():
            block: bytes = read_some(size)
        return block

    def on_progress() -> None:
        if kept is not None:
            kept.save_now_and_then(progress)
        bar.update(task, completed=progress.offset, sent=progress.sent)

    if kept is not None:
        kept.save(progress)
    chunks = read_chunks(read, progress.offset, progress.lines + 1)
    with _bar(shown=shown) as bar:
        task = bar.add_task(
            "", total=progress.size or None, completed=progress.offset, sent=0, first=progress.sent
        )
        try:
            return produce_chunks(chunks, producing, interrupts, on_progress)
        finally:
            if kept is not None:
                kept.save(progress)


def _end(producing: "Producing", is_done: bool, go_on: str | None) -> None:
    """Say in one line what is to be done, if anything is."""
    progress = producing.progress
    if producing.lost:
        first, end = producing.lost
        what = (
            f"{amount(producing.unknown, 'line')} between bytes {first} and {end}: not "
            "confirmed, Kafka may have them or not"
        )
        if progress.once:
            raise TryAgainError(f"{what}; `{go_on}` sends them again, and each counts once")
        if go_on:
            raise TryAgainError(f"{what}; `{go_on}` goes on after them, without them")
        raise TryAgainError(
            f"{what}; give events an id before sending them again, so that each is counted once"
        )
    if not is_done:
        print_error(
            f"interrupted after line {progress.lines}, byte {progress.offset}: all before it is "
            f"stored or refused, nothing after it was sent"
            + (f"; `{go_on}` goes on" if go_on else "")
        )
        raise typer.Exit(EXIT_INTERRUPTED)
    if progress.unknown:
        raise TryAgainError(
            f"{amount(progress.unknown, 'line', 'were')} not confirmed before it was resumed"
        )
    if progress.refused:
        raise BadInputError(f"{amount(progress.refused, 'line', 'were')} refused and not sent")


def _document(producing: "Producing", reports: "_Reports") -> dict[str, object]:
    progress = producing.progress
    return {
        "sent": progress.sent,
        "refused": progress.refused,
        "unknown": max(progress.unknown, producing.unknown),
        "reasons": reports.told,
        "receipt": progress.receipt or None,
        "offset": progress.offset,
    }


class _Reports:
    """Tells the first refused lines at once, and remembers them."""

    def __init__(self, file: Path) -> None:
        self.told: list[dict[str, object]] = []
        self._name = "line" if str(file) == "-" else file.name

    def take(self, refused: "RefusedLine") -> None:
        if len(self.told) < REPORTED_LINES_MAX:
            self.told.append({"line": refused.number, "reason": refused.reason})
            print_error(f"{self._name}:{refused.number}: {refused.reason}")


@contextlib.contextmanager
def _opened(file: Path) -> Iterator[BinaryIO]:
    if str(file) == "-":
        yield sys.stdin.buffer
        return
    try:
        source = file.open("rb")
    except OSError as error:
        raise typer.BadParameter(f"cannot read {file}: {error.strerror}") from error
    with source:
        yield source


@contextlib.contextmanager
def _bar(*, shown: bool) -> "Iterator[Bar]":
    """A bar on terminals; nothing elsewhere."""
    from rich import progress as bars  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    class Rate(bars.ProgressColumn):
        def render(self, task: bars.Task) -> Text:
            sent = task.fields["sent"] - task.fields["first"]
            return Text(f"{sent / task.elapsed:,.0f} events/s" if task.elapsed else "")

    out = console()
    columns = (bars.BarColumn(), bars.DownloadColumn(), Rate(), bars.TimeRemainingColumn())
    with bars.Progress(*columns, console=out, disable=not (shown and out.is_terminal)) as bar:
        yield bar
