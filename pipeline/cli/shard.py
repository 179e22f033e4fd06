"""`tally shard`: the plan of hot counters, and hints for it."""

from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from pipeline.cli.output import console, print_json
from pipeline.cli.printable import printable, write_line
from pipeline.cli.times import duration_ms
from pipeline.clock import SystemClock
from pipeline.reads.moments import rfc3339

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pipeline.planning.hints import Hinted
    from pipeline.planning.plan import Hint
    from pipeline.planning.reading import CounterShards, ShardsNow
    from schemas.settings import Settings

_DEFAULT_FOR = "1d"
_NAME_MAX = 60
_PARTITIONS_MAX = 16


def register(app: typer.Typer) -> None:
    app.command("shard")(shard)


def shard(
    counter: Annotated[
        str | None, typer.Argument(help="family:key; nothing lists the plan.", show_default=False)
    ] = None,
    n: Annotated[
        int | None, typer.Option("--n", min=1, max=4096, help="Ask for at least so many shards.")
    ] = None,
    expect: Annotated[
        float | None, typer.Option(help="Ask for as many as so many rows a second need.")
    ] = None,
    for_: Annotated[
        str | None, typer.Option("--for", help=f"How long the hint holds; {_DEFAULT_FOR}.")
    ] = None,
    clear: Annotated[bool, typer.Option("--clear", help="Take the counter's hint back.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Which counters are split into several shards, and hints for those that will be hot.

    A counter whose producers send more than TALLY_SHARD_RATE_MAX rows a second is split by itself
    within seconds, and merged again when it is quiet. A hint does so beforehand. Neither changes
    any count.

    Example: `tally shard likes:post-42 --expect 200000 --for 6h`
    """
    from schemas.settings import load_settings  # noqa: PLC0415 - brings pydantic

    is_hint = n is not None or expect is not None
    _check_usage(counter, [n is not None, expect is not None, clear], is_hint, for_)
    for_ms = duration_ms(for_ or _DEFAULT_FOR)
    settings = load_settings()
    if counter is None:
        _list(settings, json=json)
    elif is_hint:
        _hint(settings, counter, n, expect, for_ms, json=json)
    elif clear:
        _clear(settings, counter, json=json)
    else:
        _show(settings, counter, json=json)


def _check_usage(
    counter: str | None, exclusive: list[bool], is_hint: bool, for_: str | None
) -> None:
    if sum(exclusive) > 1:
        raise typer.BadParameter("--n, --expect and --clear exclude each other")
    if counter is None and any(exclusive):
        raise typer.BadParameter("name the counter: tally shard COUNTER --n 8")
    if for_ is not None and not is_hint:
        raise typer.BadParameter("--for goes with --n or --expect")


def _list(settings: "Settings", *, json: bool) -> None:
    from pipeline.planning.reading import shards_now  # noqa: PLC0415 - brings the Kafka client

    now = shards_now(settings, SystemClock().now_ms())
    if json:
        print_json(now.document())
        return
    found = now.listed()
    if found:
        console().print(_table(found, now.now_ms))
    else:
        write_line(f"no counter is split: each has one of {now.partitions} partitions")
    for line in over_sharded_lines(now):
        write_line(line)


def _show(settings: "Settings", counter: str, *, json: bool) -> None:
    from pipeline.planning.reading import shards_now  # noqa: PLC0415 - brings the Kafka client
    from schemas.events import check_event  # noqa: PLC0415 - brings pydantic

    check_event({"counter": counter})
    now = shards_now(settings, SystemClock().now_ms())
    one = now.of(counter)
    if json:
        over = now.records.over_sharded.counters
        print_json({**one.document(), "over_sharded": counter in over})
        return
    for line in counter_lines(one, now.now_ms):
        write_line(line)


def _hint(
    settings: "Settings",
    counter: str,
    n: int | None,
    expect: float | None,
    for_ms: int,
    *,
    json: bool,
) -> None:
    from pipeline.planning.hints import hint  # noqa: PLC0415 - brings the Kafka client

    found = hint(
        settings.kafka,
        counter,
        n=n,
        expect=expect,
        for_ms=for_ms,
        rate_max=settings.shard_rate_max,
    )
    if json:
        print_json(found.document())
        return
    for line in hinted_lines(found):
        write_line(line)


def _clear(settings: "Settings", counter: str, *, json: bool) -> None:
    from pipeline.planning.hints import clear  # noqa: PLC0415 - brings the Kafka client

    is_cleared = clear(settings.kafka, counter)
    if json:
        print_json({"counter": counter, "cleared": is_cleared})
    else:
        done = "its hint is taken back" if is_cleared else "no hint of it holds"
        write_line(f"{printable(counter)}: {done}")


def hinted_lines(found: "Hinted") -> "Iterator[str]":
    """What became of a hint."""
    yield (
        f"{printable(found.counter)}: at least {found.hint.n} shards until "
        f"{rfc3339(found.hint.until_ms)}; producers follow within seconds"
    )
    if found.is_capped:
        yield (
            f"there are only {found.partitions} partitions, so it has {found.shards} shards; "
            f"`tally partitions {found.hint.n}` makes more"
        )
    elif found.shards > found.hint.n:
        yield f"it has {found.shards} already"


def counter_lines(one: "CounterShards", now_ms: int) -> "Iterator[str]":
    """All that is known of a counter's shards."""
    where = ", ".join(map(str, one.partitions[:_PARTITIONS_MAX]))
    more = ", …" if len(one.partitions) > _PARTITIONS_MAX else ""
    shards = "1 shard, on partition" if one.shards == 1 else f"{one.shards} shards, on partitions"
    yield f"{printable(one.counter)}: {shards} {where}{more}"
    rate = f"{one.rate:,.0f} rows/s, {one.rate / one.shards:,.0f} per shard" if one.rate else ""
    yield f"rate         {rate or 'not among the heaviest of any producer now'}"
    yield f"planned      {_planned(one)}"
    yield f"hint         {_hint_text(one.hint, now_ms) or 'none'}"


def over_sharded_lines(now: "ShardsNow") -> "Iterator[str]":
    """Those that have many shards for little."""
    for counter, n in now.records.over_sharded.counters.items():
        yield (
            f"over-sharded: {printable(counter)} had next to nothing for its {n} shards in the "
            "last ten minutes"
        )


def _table(found: "list[CounterShards]", now_ms: int) -> Table:
    table = Table("counter", "shards", "rows/s", "per shard", "planned", "hint", box=None)
    for column in table.columns[1:4]:
        column.justify = "right"
    for one in found:
        table.add_row(
            printable(one.counter, _NAME_MAX),
            str(one.shards),
            f"{one.rate:,.0f}",
            f"{one.rate / one.shards:,.0f}",
            _planned(one),
            _hint_text(one.hint, now_ms),
        )
    return table


def _planned(one: "CounterShards") -> str:
    if one.fixed:
        return f"fixed to {one.fixed} by its family"
    if one.planned == 1:
        return "whole"
    return f"{one.planned} ({printable(one.why or 'unsaid', _NAME_MAX)})"


def _hint_text(hint: "Hint | None", now_ms: int) -> str:
    if hint is None:
        return ""
    return f"{hint.n} for {_rest(hint.until_ms - now_ms)} (by --{hint.by})"


def _rest(duration_ms: int) -> str:
    from schemas.rules import format_duration  # noqa: PLC0415 - brings pydantic

    unit_ms = 1_000 if duration_ms < 120_000 else 60_000
    return format_duration(max(1_000, duration_ms // unit_ms * unit_ms))
