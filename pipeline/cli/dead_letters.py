"""`tally dead-letters`: what was refused and why; and counted after a fix."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from pipeline.cli.letters_again import LETTERS_MAX, insert_letters, retry_letters
from pipeline.cli.output import print_json
from pipeline.cli.printable import printable, write_line
from pipeline.cli.times import duration_ms, moment_ms
from pipeline.clock import SystemClock

if TYPE_CHECKING:
    from pipeline.letters.letter import StoredLetter
    from pipeline.letters.reads import ListedLetter
    from schemas.addresses import KafkaAddress

LISTED_DEFAULT = 20
SAMPLE_LENGTH = 60


def register(app: typer.Typer) -> None:
    app.command("dead-letters")(dead_letters)


def dead_letters(
    limit: Annotated[
        int | None, typer.Option(min=1, max=LETTERS_MAX, help="Only the newest N; 20 are listed.")
    ] = None,
    reason: Annotated[str | None, typer.Option(help="Only reasons with this text in it.")] = None,
    shard: Annotated[int | None, typer.Option(min=0, help="Only of this partition.")] = None,
    since: Annotated[str | None, typer.Option(help="Only from this log time on (UTC).")] = None,
    last: Annotated[str | None, typer.Option(help="Only of the last 60m, 24h, 7d, ...")] = None,
    waiting: Annotated[
        bool, typer.Option("--waiting", help="Only those not retried or inserted.")
    ] = False,
    by_reason: Annotated[
        bool, typer.Option("--by-reason", help="Count them by reason instead.")
    ] = False,
    retry: Annotated[
        bool, typer.Option("--retry", help="Send those that match to the log again.")
    ] = False,
    insert: Annotated[
        bool, typer.Option("--insert", help="Insert the rows that ClickHouse had refused.")
    ] = False,
    edited: Annotated[
        typer.FileBinaryRead | None,
        typer.Option(help="With --retry: NDJSON of place and event, to send instead."),
    ] = None,
    yes: Annotated[
        bool, typer.Option("--yes", help="With --retry and --insert: do not ask.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """What was refused, newest first: place, log time, reason and how it begins.

    A place is partition/offset/row in the log. `--json` has the whole bytes.

    `--retry` sends letters again after a fix, each to its old partition under its old place and
    time, so that it counts once however often it is sent. The exit code is 1 if one could not be.

    `--insert` is for rows that ClickHouse refused, of cells, sketches and members (places whose
    row is below 0): once their table takes them, they are inserted, and added to the hours, days
    and totals that were rolled up without them.

    Example: `tally dead-letters --reason "too late" --last 24h --retry`
    """
    from pipeline.clickhouse import connect  # noqa: PLC0415
    from pipeline.letters.reads import LetterFilter, LetterReads  # noqa: PLC0415 - brings pyarrow
    from schemas.settings import load_settings  # noqa: PLC0415

    if edited and not retry:
        raise typer.BadParameter("--edited is for --retry")
    if yes and not (retry or insert):
        raise typer.BadParameter("--yes is for --retry and --insert")
    if retry + insert + by_reason > 1:
        raise typer.BadParameter("give one of --by-reason, --retry and --insert")
    settings = load_settings()
    wanted = LetterFilter(reason, shard, _since_ms(since, last), waiting=waiting)
    client = connect(settings.clickhouse)
    reads = LetterReads(client)
    if retry:
        retry_letters(settings.kafka, reads, wanted, limit, edited, yes=yes, json=json)
    elif insert:
        insert_letters(settings, client, wanted, limit, yes=yes, json=json)
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
        return moment_ms(since)
    return None if last is None else SystemClock().now_ms() - duration_ms(last)


def _print_letters(letters: "list[ListedLetter]", matching: int) -> None:
    from pipeline.reads.moments import rfc3339  # noqa: PLC0415

    width = max((len(letter.key.place) for letter in letters), default=0)
    for letter in letters:
        done = "inserted" if letter.key.is_set_aside else "retried"
        write_line(
            f"{letter.key.place:<{width}}  {rfc3339(letter.key.log_ms)}  "
            f"{printable(letter.reason)}{f' ({done})' if letter.retried else ''}  "
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


def _print_documents(kafka: "KafkaAddress", matching: int, letters: "list[ListedLetter]") -> None:
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
