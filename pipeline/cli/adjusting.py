"""What `tally adjust` and `tally reset` share: plan, send, wait and tell."""

from typing import TYPE_CHECKING, Any

from pipeline.cli.count import WAIT_S
from pipeline.cli.output import print_error, print_json
from pipeline.cli.printable import printable, write_line
from pipeline.clock import SystemClock
from pipeline.errors import BadInputError, TryAgainError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pipeline.adjustments.lines import Line, Mistake
    from pipeline.adjustments.planned import Planned
    from pipeline.reads.reads import Reads
    from schemas.adjustments import Adjustment
    from schemas.settings import Settings

SHOWN_MAX = 20
"""So many adjustments of a file are printed; the JSON document has them all."""


class Adjusting:
    """One run of a command: plans, sends, waits and tells. `source` names a file's lines."""

    def __init__(self, *, json: bool, dry_run: bool, wait: bool, source: str | None = None) -> None:
        self._json = json
        self._dry_run = dry_run
        self._wait = wait
        self._source = source

    def run(self, lines: "list[Line]", mistakes: "list[Mistake]") -> None:
        """Raises BadInputError for mistakes, TryAgainError where it is unknown what is stored."""
        from pipeline.adjustments.planned import plan  # noqa: PLC0415 - brings the clients

        if mistakes:
            self._refuse(mistakes)
        settings, reads = connected()
        planned = plan(reads, lines)
        if planned.mistakes:
            self._refuse(planned.mistakes)
        sent_to = {} if self._dry_run else self._send(settings, reads, planned)
        if self._json:
            print_json(self._document(planned, sent_to))
            return
        for line in self._told(planned, lines):
            write_line(line)

    def _refuse(self, mistakes: "list[Mistake]") -> None:
        """Tell what is wrong, and that nothing was written. Always raises."""
        if self._source is None:
            raise BadInputError("; ".join(one.reason for one in mistakes))
        ordered = sorted(mistakes)
        if self._json:
            print_json({"written": 0, "mistakes": [one._asdict() for one in ordered]})
        for one in ordered if not self._json else ():
            print_error(f"line {one.line}: {printable(one.reason)}")
        noun = "a mistake" if len(mistakes) == 1 else f"{len(mistakes):,} mistakes"
        raise BadInputError(f"{self._source}: {noun}, nothing was written; correct and run again")

    def _send(self, settings: "Settings", reads: "Reads", planned: "Planned") -> dict[int, int]:
        from pipeline.adjustments.sending import send  # noqa: PLC0415 - brings the Kafka client
        from pipeline.reads import receipts  # noqa: PLC0415

        if not planned.adjustments:
            return {}
        sent = send(settings.kafka, planned.adjustments)
        if sent.unknown:
            raise TryAgainError(unknown_text(planned.adjustments, sent.unknown, self._source))
        if self._wait and not receipts.wait_until_counted(
            reads, sent.places, WAIT_S, SystemClock()
        ):
            behind = receipts.told(receipts.behind(reads.positions(), sent.places))
            raise TryAgainError(
                f"stored in the log, but not counted within {WAIT_S:g} s: {behind}; it will be, "
                "see tally status"
            )
        return sent.places

    def _document(self, planned: "Planned", sent_to: dict[int, int]) -> dict[str, Any]:
        return {
            "written": 0 if self._dry_run else len(planned.adjustments),
            "stored_before": planned.stored,
            "adjustments": [one.model_dump() for one in planned.adjustments],
            "receipt": ",".join(f"{part}:{offset}" for part, offset in sorted(sent_to.items())),
        }

    def _told(self, planned: "Planned", lines: "list[Line]") -> "Iterator[str]":
        for one in planned.adjustments[:SHOWN_MAX]:
            yield line_of(one)
        more = len(planned.adjustments) - SHOWN_MAX
        if more > 0:
            yield f"and {more:,} more"
        if self._source is None and planned.stored:
            yield f"{printable(lines[0].draft.id or '')} was stored before: nothing changed"
        elif self._source is not None:
            written = "would be written" if self._dry_run else "written"
            told = f"{len(planned.adjustments):,} {written}"
            same = f", {planned.stored:,} were stored before and count once"
            yield told + (same if planned.stored else "")
        if self._dry_run:
            yield "a dry run: nothing was written"


def unknown_text(
    sent: "Sequence[Adjustment]", unknown: "Mapping[int, str]", source: str | None
) -> str:
    """What to do where nobody knows whether some were stored. Pure."""
    number, why = next(iter(unknown.items()))
    if source is not None:
        return (
            f"unknown whether {len(unknown):,} of {len(sent):,} were stored ({why}); run the same "
            "file again: each line counts once"
        )
    return (
        f"unknown whether it was stored ({why}); run the same command again with "
        f"--id {printable(sent[number].id)}: it counts once"
    )


def connected() -> "tuple[Settings, Reads]":
    """The settings, and queries of their ClickHouse. Blocks; raises TryAgainError."""
    from pipeline.clickhouse import connect  # noqa: PLC0415 - brings the ClickHouse client
    from pipeline.reads.reads import Reads  # noqa: PLC0415
    from schemas.settings import load_settings  # noqa: PLC0415 - brings pydantic

    settings = load_settings()
    return settings, Reads(connect(settings.clickhouse), SystemClock())


def line_of(one: "Adjustment") -> str:
    """An adjustment in one line, for people."""
    from pipeline.reads.spans import window_text  # noqa: PLC0415 - brings pydantic

    where = f" in {printable(one.region)}" if one.region else ""
    when = f" {one.grain} {window_text(one.window)}" if one.window is not None else ""
    values = "" if one.before is None or one.after is None else f"{one.before:,} -> {one.after:,} "
    about = f"{printable(one.counter)}{when}{where}"
    return f"{about}: {values}({one.by:+,}), adjustment {printable(one.id)}"
