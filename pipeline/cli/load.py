"""`tally load`: synthetic load through the producer."""

import contextlib
import math
import secrets
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pipeline.amounts import amount
from pipeline.cli.output import console, print_json
from pipeline.cli.printable import write_line
from pipeline.clock import SystemClock
from pipeline.errors import BadInputError, OperatorError, TryAgainError
from pipeline.interrupts import Interrupts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pipeline.load.figures import Done, Figures
    from pipeline.load.mix import Mix
    from pipeline.load.running import Order

SECONDS = 10.0
_QUANTILES = {"p50": 0.5, "p99": 0.99}


def register(app: typer.Typer) -> None:
    app.command("load")(load)


def load(
    rate: Annotated[
        float, typer.Option(min=0, help="Events a second, of all processes; 0: all it can.")
    ] = 10_000,
    seconds: Annotated[
        float | None, typer.Option(min=0, help="For so long; 10 if left out.", show_default=False)
    ] = None,
    events: Annotated[int | None, typer.Option(min=1, help="Or so many events.")] = None,
    family: Annotated[str, typer.Option(help="Of the counters: FAMILY:counter-1, ...")] = "load",
    counters: Annotated[int, typer.Option(min=1, help="How many counters.")] = 1_000,
    skew: Annotated[
        float, typer.Option(min=0, help="Zipf's exponent; 0: all counters alike.")
    ] = 1.0,
    members: Annotated[int, typer.Option(min=0, help="How many members; 0: none.")] = 10_000,
    regions: Annotated[str, typer.Option(help="With commas between.")] = "eu,us,asia",
    late: Annotated[
        float, typer.Option(min=0, max=1, help="Share that happened minutes to hours ago.")
    ] = 0,
    bad: Annotated[
        float, typer.Option(min=0, max=1, help="Share that is refused: dead letters to be.")
    ] = 0,
    ids: Annotated[float, typer.Option(min=0, max=1, help="Share with an id of its own.")] = 0,
    removals: Annotated[float, typer.Option(min=0, max=1, help="Share that takes one away.")] = 0,
    strategy: Annotated[
        str, typer.Option(help="Which shard of a hot counter: see docs/sharding.md.")
    ] = "random",
    processes: Annotated[int, typer.Option(min=1, max=64, help="How many send at once.")] = 1,
    seed: Annotated[
        int | None, typer.Option(min=0, help="The same one makes the same load.")
    ] = None,
    truth: Annotated[
        Path | None, typer.Option(help="Write what the counts must be to this file (NDJSON).")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Synthetic load, by the same producer that your programs use: 10 000/s for 10 s.

    Ctrl-C ends it early and in order. The exit code is 0 only if Kafka confirmed everything. With
    --truth, the file has a line for each counter, region and minute with the exact count of what
    was sent; give such a load a family of its own.

    Example: `tally load --rate 50000 --seconds 60 --late 0.01 --bad 0.001`
    """
    from pipeline.load.mix import Mix  # noqa: PLC0415 - brings pydantic
    from pipeline.load.running import Order  # noqa: PLC0415 - brings pyarrow and the client
    from pipeline.sharding import STRATEGIES  # noqa: PLC0415
    from schemas.settings import load_settings  # noqa: PLC0415

    if seconds is not None and events is not None:
        raise typer.BadParameter("give --seconds or --events, not both")
    if strategy not in STRATEGIES:
        raise typer.BadParameter(f"--strategy: {strategy!r} is none of {', '.join(STRATEGIES)}")
    try:
        mix = Mix(
            family=family,
            counters=counters,
            skew=skew,
            members=members,
            regions=tuple(regions.split(",")),
            late=late,
            bad=bad,
            ids=ids,
            removals=removals,
        )
    except BadInputError as error:
        raise typer.BadParameter(str(error)) from error
    seed = secrets.randbits(32) if seed is None else seed
    run = secrets.token_hex(4)
    orders = [
        Order(
            kafka=load_settings().kafka,
            mix=mix,
            rate=rate / processes,
            seconds=SECONDS if seconds is None and events is None else seconds,
            events=None if events is None else _part(events, number, processes),
            strategy=strategy,
            seed=(seed, number),
            run=f"{run}-{number}",
            wants_truth=truth is not None,
        )
        for number in range(min(processes, events or processes))
    ]
    with _truth_file(truth) as write_truth:
        done = _run(orders, shown=not json)
        rows = write_truth(done, mix)
    document = {**_document(done), "seed": seed, "truth_rows": rows}
    if json:
        print_json(document)
    else:
        _print(done, seed, truth, rows)
    if done.figures.unknown:
        raise TryAgainError(
            f"{amount(done.figures.unknown, 'event', 'were')} not confirmed: "
            "Kafka may have them or not" + (", so the truth is not exact" if truth else "")
        )


def _part(events: int, number: int, processes: int) -> int:
    """How many events are for one of the processes."""
    return events // processes + (number < events % processes)


def _run(orders: "list[Order]", *, shown: bool) -> "Done":
    from pipeline.load.processes import run_loads  # noqa: PLC0415

    with Interrupts(SystemClock()) as interrupts, _live(shown=shown) as show:
        return run_loads(orders, interrupts, show)


@contextlib.contextmanager
def _live(*, shown: bool) -> "Iterator[Callable[[Figures], None]]":
    """Shows how it goes in one line that is redrawn on terminals; nothing elsewhere."""
    from rich.live import Live  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    out = console()
    if not (shown and out.is_terminal):
        yield lambda _figures: None
        return
    with Live(console=out, auto_refresh=False, transient=True) as live:
        yield lambda figures: live.update(Text(live_line(figures)), refresh=True)


def live_line(figures: "Figures") -> str:
    """How it goes. Pure."""
    return (
        f"{figures.sent:,} sent in {figures.seconds:.1f} s: {figures.rate:,.0f}/s · "
        f"delivery p99 {_ms(figures.recent.quantile_ms(0.99))} · {figures.unknown:,} unknown"
    )


@contextlib.contextmanager
def _truth_file(path: Path | None) -> "Iterator[Callable[[Done, Mix], int | None]]":
    """Opens the file before anything is sent; gives what writes the truth into it."""
    if path is None:
        yield lambda _done, _mix: None
        return
    try:
        file = path.open("wb")
    except OSError as error:
        raise typer.BadParameter(f"--truth: cannot write {path}: {error.strerror}") from error

    def write(done: "Done", mix: "Mix") -> int:
        from pipeline.load.truth import documents  # noqa: PLC0415 - brings numpy

        if done.sums is None:
            raise OperatorError("there is no truth to write")
        names = [mix.counter(number) for number in range(1, mix.counters + 1)]
        for line in documents(done.sums, names, mix.regions):
            file.write(line + b"\n")
        return len(done.sums.keys)

    with file:
        yield write


def _document(done: "Done") -> dict[str, object]:
    figures = done.figures
    quantiles = {name: figures.latencies.quantile_ms(q) for name, q in _QUANTILES.items()}
    return {
        "sent": figures.sent,
        "stored": figures.stored,
        "unknown": figures.unknown,
        "refused": figures.refused,
        "seconds": round(figures.seconds, 3),
        "rate": round(figures.rate, 1),
        "delivery_ms": {
            name: None if found is None else round(found, 2) for name, found in quantiles.items()
        },
        "receipt": str(done.places) or None,
    }


def _print(done: "Done", seed: int, truth: Path | None, rows: int | None) -> None:
    figures = done.figures
    quantiles = [
        f"{name} {_ms(figures.latencies.quantile_ms(q))}" for name, q in _QUANTILES.items()
    ]
    write_line(f"sent      {figures.sent:,} in {figures.seconds:.1f} s: {figures.rate:,.0f}/s")
    write_line(f"stored    {figures.stored:,}, unknown {figures.unknown:,}")
    if figures.refused:
        write_line(f"refused   {figures.refused:,} of them, as dead letters")
    write_line(f"delivery  {', '.join(quantiles)}")
    write_line(f"seed      {seed}")
    if truth is not None:
        write_line(f"truth     {truth}: {amount(rows or 0, 'row')}")


def _ms(milliseconds: float | None) -> str:
    if milliseconds is None or math.isnan(milliseconds):
        return "not known"
    return f"{milliseconds:,.0f} ms" if milliseconds >= 10 else f"{milliseconds:.1f} ms"
