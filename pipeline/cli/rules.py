"""`tally rules`: the counting rules in the log, and in the families' file."""

import contextlib
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pipeline.cli.output import console, print_json
from pipeline.cli.printable import printable
from pipeline.clock import SystemClock
from pipeline.errors import OperatorError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pipeline.control.apply_rules import RulesInLog
    from pipeline.control.known_rules import KnownRules
    from pipeline.control.rules_diff import Difference
    from pipeline.control.stored_retention import StoredRetention
    from schemas.settings import Settings


class Action(StrEnum):
    """What to do with a file."""

    CHECK = "check"
    APPLY = "apply"


def register(app: typer.Typer) -> None:
    app.command("rules")(rules)


def rules(
    action: Annotated[
        Action | None, typer.Argument(help="Nothing shows what holds.", show_default=False)
    ] = None,
    file: Annotated[
        Path | None,
        typer.Argument(help="The families' file; TALLY_CONFIG or ./tally.toml if left out."),
    ] = None,
    note: Annotated[str, typer.Option(help="Why, for `tally rules` to show.")] = "",
    wait: Annotated[
        float, typer.Option(min=0, max=600, help="Seconds to wait for the shards.")
    ] = 10.0,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Show the counting rules, check a file, or apply it to the log.

    Without an action: what is in the log, which version each shard counts by, and in what the file
    differs. `check` tells a mistake with file, line and field. `apply` writes the file's rules into
    every partition, where they hold from then on, and waits until the shards count by them.

    Example: `tally rules check tally.toml`, then `tally rules apply --note "hashtags: 2h late"`
    """
    from schemas.settings import load_settings  # noqa: PLC0415 - brings pydantic

    settings = load_settings()
    if action is Action.CHECK:
        _check(_chosen(file, settings), json=json)
    elif action is Action.APPLY:
        _apply(settings, _chosen(file, settings), note, wait, json=json)
    else:
        _show(settings, json=json)


def _chosen(file: Path | None, settings: "Settings") -> Path:
    chosen = file or settings.config
    if chosen is None:
        raise OperatorError("there is no ./tally.toml: name a file, or set TALLY_CONFIG")
    return chosen


def _check(file: Path, *, json: bool) -> None:
    from schemas.families import load_families  # noqa: PLC0415 - brings pydantic

    names = sorted(load_families(file).families)
    if json:
        print_json({"file": str(file), "families": names})
    else:
        named = ", ".join(map(printable, names)) or "none but the default"
        console().print(f"{file}: no mistake; families: {named}")


def _apply(settings: "Settings", file: Path, note: str, wait_s: float, *, json: bool) -> None:
    from pipeline.control.apply_rules import wait_for_shards  # noqa: PLC0415 - brings the clients
    from pipeline.control.prepare import make_tables_and_topics  # noqa: PLC0415
    from pipeline.rules import counting_rules  # noqa: PLC0415
    from schemas.families import load_families  # noqa: PLC0415

    families = load_families(file)
    wanted = counting_rules(families)
    make_tables_and_topics(settings)
    with _known_to_servers(settings) as (in_log, stored):
        known = in_log.known()
        newest = known.newest
        found = _differences(known, file)
        is_new = newest is None or bool(found) or not known.is_whole
        applied = in_log.apply(wanted, known, note or f"from {file}") if is_new else newest
        version = applied.version if applied else 0
        found_kept = stored.differences(families)
        is_stored = stored.store(families)
        behind = wait_for_shards(in_log, version, wait_s, SystemClock()) if is_new else []
    if json:
        document = {"applied": is_new or is_stored, "version": version, "waiting_for": behind}
        found += found_kept
        print_json({**document, "differences": [each._asdict() for each in found]})
        return
    out = console()
    if is_stored:
        out.print(f"the retention of {file} holds from the next rollup on")
        _print_differences(found_kept)
    if not is_new:
        nothing = "no counting rules to apply" if is_stored else "nothing to apply"
        out.print(f"{nothing}: the log has the rules of {file} (version {version})")
        return
    out.print(f"applied {file} as version {version}")
    _print_differences(found)
    if behind:
        shards = ", ".join(map(str, behind))
        out.print(
            f"not counted by it yet: shards {shards}; that is fine when no worker runs, since it "
            "will meet them in the log"
        )
    else:
        out.print("every shard counts by it")


def _show(settings: "Settings", *, json: bool) -> None:
    from pipeline.control.kept import retention_settings  # noqa: PLC0415 - brings pydantic
    from pipeline.control.rules_diff import settings_of  # noqa: PLC0415
    from schemas.families import load_families  # noqa: PLC0415

    with _known_to_servers(settings) as (in_log, stored):
        known = in_log.known()
        partitions = in_log.partitions()
        kept = retention_settings(stored.holding())
        found = _differences(known, settings.config)
        if settings.config:
            found += stored.differences(load_families(settings.config))
    if json:
        document = _document(known, partitions, settings.config, found)
        print_json({**document, "retention": kept})
        return
    out, newest = console(), known.newest
    if newest is None:
        out.print("no rules were applied yet: the defaults hold")
        return
    out.print(_headline(known))
    for name, value in {**settings_of(newest), **kept}.items():
        out.print(f"  {printable(name)} = {value}")
    behind = known.shards_not_at(newest.version, partitions)
    if behind:
        out.print(f"not counted by it yet: shards {', '.join(map(str, behind))}", style="yellow")
    else:
        out.print(f"all {partitions} shards count by it")
    if found:
        out.print(f"{settings.config} differs; `tally rules apply` would change", style="yellow")
        _print_differences(found)
    elif settings.config:
        out.print(f"{settings.config} says the same")


def _headline(known: "KnownRules") -> str:
    from pipeline.reads.moments import rfc3339  # noqa: PLC0415 - as the other modules of this file

    newest, applied = known.newest, known.applied
    version = newest.version if newest else 0
    if applied is None or applied.rules != newest:
        return f"version {version}, not in every partition yet: `tally rules apply` sets it right"
    when = rfc3339(applied.applied_at_ms)
    return f"version {version}, applied {when}" + (
        f" ({printable(applied.note)})" if applied.note else ""
    )


def _document(
    known: "KnownRules", partitions: int, file: Path | None, found: "list[Difference]"
) -> dict[str, Any]:
    import json as json_text  # noqa: PLC0415 - the option has its name

    newest, applied = known.newest, known.applied
    return {
        "rules": None if newest is None else json_text.loads(newest.bytes),
        "applied_at_ms": applied.applied_at_ms if applied else None,
        "note": applied.note if applied else None,
        "whole": known.is_whole,
        "shards": [
            {"shard": shard, "version": known.counted.get(shard)} for shard in range(partitions)
        ],
        "file": None if file is None else str(file),
        "differences": [each._asdict() for each in found],
    }


def _differences(known: "KnownRules", file: Path | None) -> "list[Difference]":
    """What applying the file would change; nothing without a file."""
    from pipeline.control.rules_diff import differences  # noqa: PLC0415
    from pipeline.rules import CountingRules, counting_rules  # noqa: PLC0415 - brings pydantic
    from schemas.families import load_families  # noqa: PLC0415

    if file is None:
        return []
    return differences(known.newest or CountingRules(), counting_rules(load_families(file)))


def _print_differences(found: "list[Difference]") -> None:
    for difference in found:
        console().print(f"  {printable(difference.line())}")


@contextlib.contextmanager
def _known_to_servers(settings: "Settings") -> "Iterator[tuple[RulesInLog, StoredRetention]]":
    from pipeline.clickhouse import connect  # noqa: PLC0415
    from pipeline.control.apply_rules import RulesInLog  # noqa: PLC0415 - brings the clients
    from pipeline.control.stored_retention import StoredRetention  # noqa: PLC0415

    with contextlib.closing(connect(settings.clickhouse)) as client:
        clock = SystemClock()
        yield RulesInLog(settings, client, clock), StoredRetention(client, clock)
