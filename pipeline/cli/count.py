"""`tally count`: a counter's total and windows."""

from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from pipeline.cli.names import check_counter
from pipeline.cli.output import print_json
from pipeline.cli.printable import printable, write_line
from pipeline.cli.times import asked_span
from pipeline.clock import SystemClock
from pipeline.errors import BadInputError, TryAgainError

if TYPE_CHECKING:
    from collections.abc import Callable

    from pipeline.producer.receipts import Places
    from pipeline.reads.counts import CountAnswer
    from pipeline.reads.reads import Reads
    from schemas.addresses import KafkaAddress


WAIT_S = 10.0


class GrainOption(StrEnum):
    """The grains people may ask for."""

    MINUTE = "1m"
    HOUR = "1h"
    DAY = "1d"


class ModeOption(StrEnum):
    """How a number is known."""

    CACHED = "cached"
    EXACT = "exact"
    LIVE = "live"


def register(app: typer.Typer) -> None:
    app.command("count")(count)


def count(
    counter: Annotated[str, typer.Argument(help="family:key, for instance likes:post-42")],
    by: Annotated[GrainOption | None, typer.Option(help="Windows of this size, too.")] = None,
    last: Annotated[str | None, typer.Option(help="Only the last 60m, 24h, 7d, ...")] = None,
    since: Annotated[str | None, typer.Option(help="From this time on (UTC).")] = None,
    until: Annotated[str | None, typer.Option(help="Up to, not including, this time.")] = None,
    region: Annotated[str | None, typer.Option(help="Only this region; * is all.")] = None,
    mode: Annotated[
        ModeOption | None,
        typer.Option(
            help="cached: as it was rolled up last. exact: summed over all shards now. live: "
            "exact, after workers flushed. The file tally.toml may set it per family; else exact.",
            show_default=False,
        ),
    ] = None,
    after: Annotated[
        str | None,
        typer.Option(help="Only when what has this receipt is counted: partition:offset,..."),
    ] = None,
    wait: Annotated[
        float | None,
        typer.Option(
            min=0,
            help="Seconds to wait for that, or for a live flush; 10 if left out.",
            show_default=False,
        ),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """A counter's total, and with --by its windows.

    With times it is the sum of the minutes that begin in them; where a time cuts an hour whose
    minutes are gone, a remark says so. A total below zero is shown as 0, with the net beside it.

    With --after, the receipt of `tally produce --json` or of a Producer, the answer has everything
    that was sent up to it; if that is not counted in time, there is none, and the exit code is 1.
    Live, it has everything that was in the log; where a shard was not flushed in time it is not
    complete, and a remark names the shard.

    Example: `tally count likes:post-42 --by 1m --last 60m`
    """
    from pipeline.clickhouse import connect  # noqa: PLC0415 - brings the ClickHouse client
    from pipeline.reads import counts  # noqa: PLC0415
    from pipeline.reads.reads import Reads  # noqa: PLC0415
    from schemas.families import load_families  # noqa: PLC0415 - brings pydantic
    from schemas.settings import load_settings  # noqa: PLC0415

    check_counter(counter)
    clock = SystemClock()
    span = asked_span(last, since, until, clock.now_ms())
    places = None if after is None else _places(after)
    settings = load_settings()
    how = mode.value if mode else counts.default_mode(load_families(settings.config), counter)
    if wait is not None and after is None and how != "live":
        raise typer.BadParameter("--wait is for --after RECEIPT and --mode live")
    wait_s = WAIT_S if wait is None else wait
    reads = Reads(connect(settings.clickhouse), clock)
    if places is not None:
        _wait_until_counted(reads, places, wait_s)
    question = counts.Question(
        counter, by.value if by else None, span, None if region == "*" else region
    )
    ask = partial(counts.count, reads, question, how, round(settings.rollup_interval_s * 1000))
    answer = _live(ask, settings.kafka, reads, wait_s) if how == "live" else ask()
    if json:
        print_json(answer.document())
    else:
        _print(answer)


def _live(
    ask: "Callable[[], CountAnswer]", kafka: "KafkaAddress", reads: "Reads", wait_s: float
) -> "CountAnswer":
    from pipeline.reads import flush_requests  # noqa: PLC0415 - brings the Kafka client

    why_not = flush_requests.flush_now(kafka, reads, wait_s, SystemClock())
    return flush_requests.as_live(ask(), why_not)


def _places(after: str) -> "Places":
    from pipeline.producer.receipts import Places  # noqa: PLC0415 - brings the Kafka client

    try:
        return Places.parse(after)
    except BadInputError as error:
        raise typer.BadParameter(f"--after: {error}") from error


def _wait_until_counted(reads: "Reads", places: "Places", wait_s: float) -> None:
    from pipeline.reads import receipts  # noqa: PLC0415

    if not receipts.wait_until_counted(reads, places, wait_s, SystemClock()):
        behind = receipts.behind(reads.positions(), places)
        raise TryAgainError(
            f"not counted within {wait_s:g} s: {receipts.told(behind) or 'until just now'}; "
            "ask again later, and see tally status"
        )


def _print(answer: "CountAnswer") -> None:
    net = f"  (net {answer.net:,})" if answer.net < 0 else ""
    between = _between(answer.low, answer.high)
    why = f" ({between}: the family is sketched)" if between else ""
    write_line(f"{printable(answer.counter)}  {answer.total:,}{net}{why}")
    for row in answer.windows:
        bounds = _between(row.low, row.high)
        write_line(f"  {row.window}  {row.count:>12,}" + (f"  {bounds}" if bounds else ""))
    if answer.mode == "cached":
        age = "never" if answer.staleness_ms is None else f"{answer.staleness_ms / 1000:.0f} s ago"
        write_line(f"  cached: rolled up {age}; --mode exact has what came since")
    if not answer.complete:
        lately = "rolled up" if answer.mode == "cached" else "flushed"
        write_line(f"  not complete: a shard was not {lately} lately; see tally status")
    if answer.spilled_to is not None:
        write_line(
            "  may be too low: its family had more counters than its cap allows, and what was "
            f"counted past it is under {printable(answer.spilled_to)}"
        )
    for remark in answer.remarks:
        write_line(f"  {remark}")


def _between(low: int | None, high: int | None) -> str:
    return "" if low is None or high is None else f"between {low:,} and {high:,}"
