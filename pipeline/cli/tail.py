"""`tally tail`: the log's events as they come."""

import sys
from typing import Annotated, Any

import typer

from pipeline.amounts import amount
from pipeline.cli.output import print_json
from pipeline.cli.printable import printable, write_line
from pipeline.clock import SystemClock


def register(app: typer.Typer) -> None:
    app.command("tail")(tail)


def tail(
    family: Annotated[str | None, typer.Option(help="Only events of this family.")] = None,
    counter: Annotated[str | None, typer.Option(help="Only events of this counter.")] = None,
    region: Annotated[str | None, typer.Option(help="Only events of this region.")] = None,
    refused: Annotated[
        bool, typer.Option("--refused", help="Only what the decoder refuses.")
    ] = False,
    control: Annotated[
        bool, typer.Option("--control", help="Rules, heartbeats and the like, too.")
    ] = False,
    last: Annotated[
        int, typer.Option(min=0, help="Begin with the last N records of each partition.")
    ] = 0,
    from_start: Annotated[
        bool, typer.Option("--from-start", help="Begin with the oldest record there is.")
    ] = False,
    limit: Annotated[int | None, typer.Option(min=1, help="End after so many lines.")] = None,
    no_follow: Annotated[bool, typer.Option("--no-follow", help="End where the log ends.")] = False,
    json: Annotated[
        bool, typer.Option("--json", help="Print NDJSON: one JSON document on each line.")
    ] = False,
) -> None:
    r"""Events as they come into the log, decoded as workers do; Ctrl-C ends it.

    A line has the event's time, counter, delta, region, member, id and place
    (partition/offset/row); frames are unpacked. What the decoder refuses is shown with its reason.
    Whether an event is late or double is for the workers to say: see `tally dead-letters`.

    It joins no consumer group and commits nothing.

    Example: `tally tail --family likes --last 10`
    """
    from pipeline.tail.reader import TailReader  # noqa: PLC0415 - brings the Kafka client
    from pipeline.tail.shown import Wanted, seen  # noqa: PLC0415 - brings pyarrow
    from schemas.settings import load_settings  # noqa: PLC0415

    if from_start and last:
        raise typer.BadParameter("give --from-start or --last, not both")
    wanted = Wanted(family, counter, region, refused_only=refused, control=control)
    if refused and wanted.chooses_events:
        raise typer.BadParameter("what is refused has no family, counter or region to choose by")
    kafka = load_settings().kafka
    shown = 0
    with TailReader(kafka, SystemClock()) as reader:
        partitions = reader.start(None if from_start else last, control=control)
        _tell_beginning(partitions)
        for records in reader.read(follow=not no_follow):
            for document in seen(records, wanted):
                if json:
                    print_json(document)
                else:
                    write_line(line_of(document))
                shown += 1
                if shown == limit:
                    return
            sys.stdout.flush()


def _tell_beginning(partitions: int) -> None:
    """A word for somebody who would otherwise sit before an empty screen."""
    if sys.stdout.isatty() and sys.stderr.isatty():
        sys.stderr.write(f"following {amount(partitions, 'partition')}; Ctrl-C ends it\n")


def line_of(document: dict[str, Any]) -> str:
    """What `seen` says of a record, in one line for people."""
    if document["kind"] == "event":
        parts = [
            document["at"],
            printable(document["counter"]),
            f"{document['delta']:+d}",
            *(
                f"{name}={printable(document[name])}"
                for name in ("region", "member", "id")
                if document[name]
            ),
        ]
    else:
        what = document.get("control") or f"refused: {document['reason']}"
        parts = [document["log_time"], printable(what), printable(document["sample"])]
    return "  ".join([*parts, document["place"]])
