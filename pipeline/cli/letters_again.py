"""What `tally dead-letters` does with letters after a fix: send them again, insert their rows."""

import sys
from dataclasses import replace
from typing import TYPE_CHECKING

import typer

from pipeline.amounts import amount
from pipeline.cli.output import console, print_json
from pipeline.cli.printable import printable
from pipeline.clock import SystemClock
from pipeline.errors import OperatorError

if TYPE_CHECKING:
    from collections import Counter

    from clickhouse_connect.driver import Client

    from pipeline.letters.letter import LetterKey
    from pipeline.letters.reads import LetterFilter, LetterReads
    from schemas.addresses import KafkaAddress
    from schemas.settings import Settings

LETTERS_MAX = 100_000
"""At most so many in one run."""


def retry_letters(
    kafka: "KafkaAddress",
    reads: "LetterReads",
    wanted: "LetterFilter",
    limit: int | None,
    edited_file: "typer.FileBinaryRead | None",
    *,
    yes: bool,
    json: bool,
) -> None:
    """Send letters to the log again. Raises OperatorError if one could not be."""
    from pipeline.letters.edited import read_edited  # noqa: PLC0415
    from pipeline.letters.memory import remembered  # noqa: PLC0415 - brings the Kafka client
    from pipeline.letters.retry import (  # noqa: PLC0415
        RETRIED,
        leave_out_forgotten,
        plan,
        retry,
    )
    from pipeline.letters.sender import KafkaRetrySender  # noqa: PLC0415
    from pipeline.letters.topic import LetterTopic  # noqa: PLC0415

    clock = SystemClock()
    edited = read_edited(edited_file) if edited_file is not None else None
    chosen = wanted if edited is not None else replace(wanted, waiting=True)
    planned = plan(reads.letters(chosen, limit or LETTERS_MAX), edited)
    if planned.keys:
        memory = remembered(kafka, reads.build(), planned.keys, clock)
        planned = leave_out_forgotten(planned, memory)
    if edited is None and not wanted.waiting:
        planned.skipped[RETRIED] += reads.count(replace(wanted, retried=True))
    _make_sure(
        f"Send {amount(len(planned.keys), 'dead letter')} to the log again?", planned.keys, yes=yes
    )
    outcome = retry(
        planned,
        edited,
        letters=LetterTopic(kafka),
        sender=KafkaRetrySender(kafka),
        memory=reads,
        clock=clock,
    )
    done = f"sent {amount(outcome.sent, 'dead letter')} again"
    _print_outcome({"sent": outcome.sent}, done, outcome.skipped, json=json)
    if outcome.unsent:
        raise OperatorError(
            f"{amount(outcome.unsent, 'dead letter', 'were')} not sent, for the reasons given"
        )


def insert_letters(
    settings: "Settings",
    client: "Client",
    wanted: "LetterFilter",
    limit: int | None,
    *,
    yes: bool,
    json: bool,
) -> None:
    """Insert the rows that letters hold. Raises OperatorError if one could not be."""
    from pipeline.builds.rebuilds import declared_builds, read_rebuilds  # noqa: PLC0415
    from pipeline.letters.insert import INSERTED, insert  # noqa: PLC0415
    from pipeline.letters.lineage import check_no_heir, lineage  # noqa: PLC0415
    from pipeline.letters.put_back import by_table  # noqa: PLC0415
    from pipeline.letters.reads import LetterReads  # noqa: PLC0415
    from pipeline.letters.row_table import ClickHouseRowTable  # noqa: PLC0415
    from pipeline.letters.topic import LetterTopic  # noqa: PLC0415 - brings the Kafka client

    reads = LetterReads(client)
    build, rebuilds = reads.build(), read_rebuilds(client)
    check_no_heir(build, rebuilds, declared_builds(client))
    rows = replace(wanted, set_aside=True)
    letters = reads.letters(replace(rows, waiting=True), limit or LETTERS_MAX)
    keys = [letter.key for letter in letters]
    before = 0 if wanted.waiting else reads.count(replace(rows, retried=True))
    _make_sure(f"Insert the rows of {amount(len(keys), 'dead letter')}?", keys, yes=yes)
    table = ClickHouseRowTable(settings.clickhouse)
    try:
        outcome = insert(
            keys,
            build,
            older=lineage(build, rebuilds),
            letters=LetterTopic(settings.kafka),
            tables=by_table(table, client, build),
            memory=reads,
            clock=SystemClock(),
        )
    finally:
        table.close()
    outcome.skipped[INSERTED] += before
    done = f"inserted the rows of {amount(outcome.letters, 'dead letter')}"
    _print_outcome({"inserted": outcome.letters}, done, outcome.skipped, json=json)
    if outcome.left:
        raise OperatorError(
            f"the rows of {amount(outcome.left, 'dead letter')} were not inserted, "
            "for the reasons given"
        )


def _make_sure(question: str, letters: "list[LetterKey]", *, yes: bool) -> None:
    """Ask on a terminal. Raises OperatorError when somebody says no."""
    if yes or not letters or not (sys.stdin.isatty() and sys.stderr.isatty()):
        return
    if not typer.confirm(question, err=True):
        raise OperatorError("nothing was done, as you wished; --yes does not ask")


def _print_outcome(
    figures: dict[str, int], done: str, reasons: "Counter[str]", *, json: bool
) -> None:
    skipped = [(reason, count) for reason, count in reasons.most_common() if count]
    if json:
        listed = [{"reason": reason, "letters": count} for reason, count in skipped]
        print_json({**figures, "skipped": listed})
        return
    out = console()
    out.print(done)
    for reason, count in skipped:
        out.print(f"skipped {count:,}: {printable(reason)}")
