"""`tally partitions`: how many there are, and growing them."""

import contextlib
from typing import Annotated

import typer

from pipeline.amounts import amount
from pipeline.cli.output import console, print_json
from pipeline.clock import SystemClock


def register(app: typer.Typer) -> None:
    app.command("partitions")(partitions)


def partitions(
    number: Annotated[
        int | None,
        typer.Argument(min=1, max=4096, help="Grow to so many; nothing shows how many there are."),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Show the partitions, or grow the source and the changelogs of all builds together.

    Takes ten seconds, in which reads hear of it: none is complete until the new ones are counted.
    Workers share them by themselves within half a minute. Asking again for the same number sets
    right what was cut short. There is no way back: Kafka takes no partition away.

    Example: `tally partitions 16`
    """
    from pipeline.clickhouse import connect  # noqa: PLC0415
    from pipeline.control.apply_rules import RulesInLog  # noqa: PLC0415 - brings the clients
    from pipeline.control.grow import grow, partitions_now  # noqa: PLC0415
    from pipeline.control.noted_partitions import NotedPartitions  # noqa: PLC0415
    from schemas.settings import load_settings  # noqa: PLC0415

    settings = load_settings()
    with contextlib.closing(connect(settings.clickhouse)) as client:
        rules = RulesInLog(settings, client, SystemClock())
        before = partitions_now(settings.kafka, rules)
        now = before
        if number is not None:
            now = grow(settings.kafka, rules, NotedPartitions(client), number)
    if json:
        print_json(now.document())
        return
    out = console()
    grown = f" (there were {before.source})" if now.source != before.source else ""
    out.print(f"{amount(now.source, 'partition')} of the source{grown}")
    for build, count in now.changelogs.items():
        out.print(f"{amount(count, 'partition')} of build {build}'s changelog")
    routed = "not fixed yet: no rules were applied" if now.ids is None else str(now.ids)
    out.print(f"ids are routed by {routed}")
    if now.uneven:
        out.print(f"uneven: run `tally partitions {now.most}`", style="red")
