"""`tally dead-letters`: what was refused and why; and again to the log after a fix."""

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pipeline.cli.output import console, print_json
from pipeline.cli.printable import printable, write_line
from pipeline.cli.times import duration_ms, moment
from pipeline.clock import SystemClock
from pipeline.errors import OperatorError

if TYPE_CHECKING:
    from pipeline.letters.letter import StoredLetter
    from pipeline.letters.reads import LetterFilter, LetterReads, ListedLetter
    from pipeline.letters.retry import Outcome

LISTED_DEFAULT = 20
RETRIED_MAX = 100_000
SAMPLE_LENGTH = 60


def register(app: typer.Typer) -> None:
    app.command("dead-letters")(dead_letters)


def dead_letters(
    limit: Annotated[
        int | None, typer.Option(min=1, max=RETRIED_MAX, help="Only the newest N; 20 are listed.")
    ] = None,
    reason: Annotated[str | None, typer.Option(help="Only reasons with this text in it.")] = None,
    shard: Annotated[int | None, typer.Option(min=0, help="Only of this partition.")] = None,
    since: Annotated[str | None, typer.Option(help="Only from this log time on (UTC).")] = None,
    last: Annotated[str | None, typer.Option(help="Only of the last 60m, 24h, 7d, ...")] = None,
    waiting: Annotated[
        bool, typer.Option("--waiting", help="Only those that were not retried.")
    ] = False,
    by_reason: Annotated[
        bool, typer.Option("--by-reason", help="Count them by reason instead.")
    ] = False,
    retry: Annotated[
        bool, typer.Option("--retry", help="Send those that match to the log again.")
    ] = False,
    edited: Annotated[
        typer.FileBinaryRead | None,
        typer.Option(help="With --retry: NDJSON of place and event, to send instead."),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="With --retry: do not ask.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """What was refused, newest first: place, log time, reason and how it begins.

    A place is partition/offset/row in the log. `--json` has the whole bytes.

    `--retry` sends letters again after a fix, each to its old partition under its old place and
    time, so that it counts once however often it is sent. The exit code is 1 if one could not be.

    Example: `tally dead-letters --reason "too late" --last 24h --retry`
    """
    from pipeline.clickhouse import connect  # noqa: PLC0415
    from pipeline.letters.reads import LetterFilter, LetterReads  # noqa: PLC0415 - brings pyarrow
    from schemas.settings import load_settings  # noqa: PLC0415

    if (edited or yes) and not retry:
        raise typer.BadParameter("--edited and --yes are for --retry")
    if retry and by_reason:
        raise typer.BadParameter("give --by-reason or --retry, not both")
    settings = load_settings()
    wanted = LetterFilter(reason, shard, _since_ms(since, last), waiting=waiting)
    reads = LetterReads(connect(settings.clickhouse))
    if retry:
        _retry(settings.kafka, reads, wanted, limit, edited, yes=yes, json=json)
    elif by_reason:
        _print_reasons(reads.by_reason(wanted), json=json)
    else:
        letters = reads.letters(wanted, limit or LISTED_DEFAULT)
        if json:
            _print_documents(settings.kafka, reads.count(wanted), letters)
        else:
            _print_letters(letters, reads.count(wanted))


def _since_ms(since: str | None, last: str | None) -> int | None:
    if since is not None and last is not None:
        raise typer.BadParameter("give --last or --since, not both")
    if since is not None:
        return round(moment(since).timestamp() * 1000)
    return None if last is None else SystemClock().now_ms() - duration_ms(last)


def _print_letters(letters: "list[ListedLetter]", matching: int) -> None:
    from pipeline.reads.moments import rfc3339  # noqa: PLC0415

    width = max((len(letter.key.place) for letter in letters), default=0)
    for letter in letters:
        write_line(
            f"{letter.key.place:<{width}}  {rfc3339(letter.key.log_ms)}  "
            f"{printable(letter.reason)}{' (retried)' if letter.retried else ''}  "
            f"{printable(letter.sample, SAMPLE_LENGTH)}"
        )
    if matching > len(letters):
        write_line(f"the newest {len(letters):,} of {matching:,}; --limit shows more")
    elif not letters:
        write_line("no dead letters")


def _print_reasons(reasons: list[tuple[str, int]], *, json: bool) -> None:
    if json:
        listed = [{"reason": reason, "letters": count} for reason, count in reasons]
        print_json({"letters": sum(count for _, count in reasons), "reasons": listed})
        return
    for reason, count in reasons:
        write_line(f"{count:>12,}  {printable(reason)}")
    if not reasons:
        write_line("no dead letters")


def _print_documents(kafka: str, matching: int, letters: "list[ListedLetter]") -> None:
    from pipeline.letters.topic import LetterTopic  # noqa: PLC0415 - brings the Kafka client

    found = LetterTopic(kafka).find(letter.key for letter in letters)
    stored = {letter.key: letter for letter in found}
    documents = [document(letter, stored.get(letter.key)) for letter in letters]
    print_json({"matching": matching, "letters": documents})


def document(letter: "ListedLetter", stored: "StoredLetter | None") -> dict[str, Any]:
    """A letter with its bytes: in `value` if they are UTF-8, else in `value_base64`."""
    from base64 import b64encode  # noqa: PLC0415

    from pipeline.reads.moments import rfc3339  # noqa: PLC0415

    text = base64 = None
    if stored is not None:
        try:
            text = stored.value.decode()
        except UnicodeDecodeError:
            base64 = b64encode(stored.value).decode()
    return {
        "place": letter.key.place,
        "shard": letter.key.shard,
        "offset": letter.key.offset,
        "row": letter.key.row,
        "log_time": rfc3339(letter.key.log_ms),
        "reason": letter.reason,
        "retried": letter.retried,
        "bytes": letter.bytes_total,
        "cut": stored is not None and stored.is_cut,
        "value": text,
        "value_base64": base64,
    }


def _retry(
    kafka: str,
    reads: "LetterReads",
    wanted: "LetterFilter",
    limit: int | None,
    edited_file: "typer.FileBinaryRead | None",
    *,
    yes: bool,
    json: bool,
) -> None:
    from dataclasses import replace  # noqa: PLC0415

    from pipeline.letters.edited import read_edited  # noqa: PLC0415
    from pipeline.letters.retry import RETRIED, plan, retry  # noqa: PLC0415
    from pipeline.letters.sender import KafkaRetrySender  # noqa: PLC0415
    from pipeline.letters.topic import LetterTopic  # noqa: PLC0415 - brings the Kafka client
    from pipeline.refused import PLACES_MAX  # noqa: PLC0415

    edited = read_edited(edited_file) if edited_file is not None else None
    chosen = wanted if edited is not None else replace(wanted, waiting=True)
    letters = reads.letters(chosen, limit or RETRIED_MAX)
    planned = plan(letters, reads.nth_newest(PLACES_MAX), edited)
    if edited is None and not wanted.waiting:
        planned.skipped[RETRIED] += reads.count(replace(wanted, retried=True))
    if planned.keys and not (yes or _agreed(len(planned.keys))):
        raise OperatorError("nothing was sent, as you wished; --yes does not ask")
    outcome = retry(
        planned,
        edited,
        letters=LetterTopic(kafka),
        sender=KafkaRetrySender(kafka),
        memory=reads,
        clock=SystemClock(),
    )
    _print_outcome(outcome, json=json)
    if outcome.unsent:
        raise OperatorError(f"{outcome.unsent:,} dead letters were not sent, for the reasons given")


def _agreed(letters: int) -> bool:
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return True
    return typer.confirm(f"Send {letters:,} dead letters to the log again?", err=True)


def _print_outcome(outcome: "Outcome", *, json: bool) -> None:
    skipped = [(reason, count) for reason, count in outcome.skipped.most_common() if count]
    if json:
        listed = [{"reason": reason, "letters": count} for reason, count in skipped]
        print_json({"sent": outcome.sent, "skipped": listed})
        return
    out = console()
    out.print(f"sent {outcome.sent:,} dead letters again")
    for reason, count in skipped:
        out.print(f"skipped {count:,}: {printable(reason)}")
