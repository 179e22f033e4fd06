"""What the log holds, read by a plain consumer and decoded by the formats' own libraries."""

import json
import time
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
from confluent_kafka import Consumer, Message, TopicPartition

from tests.kit.truth.expected import Adjustment
from tests.kit.truth.kinds import ONCE, SKETCHED, family_of
from tests.kit.truth.ledger import LoggedCommand
from tests.kit.truth.letters import Letter, LetterPlace
from tests.kit.truth.record import Document, Record, mark_of
from tests.kit.truth.sketched import LoggedRow

TOPIC = "tally.increments"
STRICT_TOPIC = "tally.strict"
LETTERS_TOPIC = "tally.dead-letters"
TIMEOUT_S = 30
CONSUME_S = 0.1
"""How long to wait for a thousand records, which may never come."""

DEFAULTS = {"delta": 1, "region": ""}
"""What need not be written."""

ADJUSTMENT = b"adjustment"
FRAME = b"application/vnd.apache.arrow.stream"


@dataclass
class Logged:
    """How often each mark is in the log, and the end of each partition when it was read."""

    marks: Counter[str] = field(default_factory=Counter)
    rows: int = 0
    """How many increments there are, also those that must be refused."""

    once: list[Document] = field(default_factory=list)
    """Increments of families that count once per member, in the order of each partition."""

    sketched: list[LoggedRow] = field(default_factory=list)
    """Increments of sketched families, in the same order, each with the log's time."""

    adjustments: dict[tuple[str, str], Adjustment] = field(default_factory=dict)
    """Additive corrections by counter and id: of equal ones the first holds."""

    refusable: dict[LetterPlace, bytes] = field(default_factory=dict)
    """Records that must be refused, by their places."""

    ends: list[int] = field(default_factory=list)


def read_log(kafka: str) -> Logged:
    """Read all of it, up to the ends that it has now. Blocks; raises AssertionError if it stops."""
    found = Logged()
    for end, records in _partitions(kafka, TOPIC):
        found.ends.append(end)
        log_ms = 0
        for record in records:
            # The greatest time so far, whatever kind of record had it.
            log_ms = max(log_ms, record.timestamp()[1])
            _take(record, log_ms, found)
    return found


def read_commands(kafka: str) -> list[LoggedCommand]:
    """The commands of strict counters, in the order of each partition. Blocks; raises as above.

    One in another partition than its counter's is no command.
    """
    commands = [
        [
            LoggedCommand(json.loads(record.value() or b"null"), record.timestamp()[1])
            for record in records
        ]
        for _, records in _partitions(kafka, STRICT_TOPIC)
    ]
    return in_their_partitions(commands)


def read_letters(kafka: str) -> list[tuple[LetterPlace, Letter]]:
    """Dead letters as their topic has them. Blocks; raises as above."""
    return [
        _letter(record) for _, records in _partitions(kafka, LETTERS_TOPIC) for record in records
    ]


def _letter(record: Message) -> tuple[LetterPlace, Letter]:
    told = {name: _bytes(value).decode() for name, value in dict(record.headers() or []).items()}
    partition, offset, row = map(int, _bytes(record.key()).decode().split("/"))
    place = LetterPlace(partition, offset, row, int(told["tally-timestamp"]))
    named = tuple(int(told[f"tally-{name}"]) for name in ("partition", "offset", "row"))
    assert named == place[:3], f"a letter's key and headers name two places: {place} and {named}"
    letter = Letter(_bytes(record.value()), int(told["tally-bytes"]), told["tally-reason"])
    return place, letter


def in_their_partitions(commands: Sequence[Iterable[LoggedCommand]]) -> list[LoggedCommand]:
    """Of what each partition has, the commands of counters that are decided there. Pure."""
    return [
        one
        for number, those in enumerate(commands)
        for one in those
        if zlib.crc32(one.command["counter"].encode()) % len(commands) == number
    ]


def count_rows(kafka: str) -> int:
    """How many increments the log has. Blocks."""
    return read_log(kafka).rows


def _partitions(kafka: str, topic: str) -> Iterator[tuple[int, Iterator[Message]]]:
    """The end of each partition that a topic has, and the records up to it."""
    consumer = Consumer({"bootstrap.servers": kafka, "group.id": "truth", "log_level": 0})
    try:
        known = consumer.list_topics(timeout=TIMEOUT_S).topics.get(topic)
        for number in sorted(known.partitions if known else ()):
            place = TopicPartition(topic, number)
            first, end = consumer.get_watermark_offsets(place, timeout=TIMEOUT_S)
            consumer.assign([TopicPartition(topic, number, first)])
            yield end, _records(consumer, end if first < end else 0)
    finally:
        consumer.close()


def _records(consumer: Consumer, end: int) -> Iterator[Message]:
    at, heard_s = 0, time.monotonic()
    while at < end:
        records = consumer.consume(1000, timeout=CONSUME_S)
        if records:
            heard_s = time.monotonic()
        assert time.monotonic() - heard_s < TIMEOUT_S, f"nothing came after {at} of {end}"
        for record in records:
            assert record.error() is None, record.error()
            at = (record.offset() or 0) + 1
            yield record


def _take(record: Message, log_ms: int, found: Logged) -> None:
    headers = dict(record.headers() or [])
    value = _bytes(record.value())
    if headers.get("tally-kind") == ADJUSTMENT:
        one = json.loads(value)
        found.adjustments.setdefault((one["counter"], one["id"]), _adjustment(one))
    if "tally-kind" not in headers:
        is_frame = headers.get("content-type") == FRAME
        rows = _rows(value, is_frame)
        found.rows += len(rows)
        found.marks.update(mark for row in rows if (mark := mark_of(row)) is not None)
        counted = [{**DEFAULTS, **row} for row in rows if _is_meant_to_count(row)]
        if not is_frame and not counted:
            place = (record.partition() or 0, record.offset() or 0, 0, record.timestamp()[1])
            found.refusable[LetterPlace(*place)] = value
        found.once += [row for row in counted if family_of(row) in ONCE]
        found.sketched += [LoggedRow(row, log_ms) for row in counted if family_of(row) in SKETCHED]


def _adjustment(one: Document) -> Adjustment:
    of = one["counter"], one.get("region", ""), one["by"]
    return Adjustment(*of, one.get("grain"), one.get("window", 0) // 1000)


def _rows(value: bytes, is_frame: bool) -> list[Document]:
    if is_frame:
        rows = pa.ipc.open_stream(value).read_all().to_pylist()
    else:
        try:
            rows = [json.loads(value)]
        except ValueError:
            return []
    return [{k: v for k, v in row.items() if v is not None} for row in rows if _is_map(row)]


def _bytes(value: str | bytes | None) -> bytes:
    """What a record has, which the client may give as text."""
    return value.encode() if isinstance(value, str) else value or b""


def _is_map(row: object) -> bool:
    return isinstance(row, dict)


def _is_meant_to_count(row: Document) -> bool:
    """What must be refused has a note, and changes nobody."""
    return isinstance(row.get("counter"), str) and "note" not in row


def settle_unknown(record: Record, logged: Logged) -> tuple[list[Document], list[str]]:
    """All increments that must be counted, and what is wrong with the log itself.

    An unknown increment counts if the log has it. One whose mark nobody can look for must not be
    unknown in the end.
    """
    wrong, counted = [], list(record.acknowledged)
    for document in record.acknowledged:
        mark = mark_of(document)
        if mark is not None and not logged.marks[mark]:
            wrong.append(f"the log lost what it had acknowledged: {document}")
        if mark is not None and "id" not in document and logged.marks[mark] > 1:
            wrong.append(f"the log has {logged.marks[mark]} times what was sent once: {document}")
    for document in record.unknown:
        mark = mark_of(document)
        if mark is None or "id" in document:
            wrong.append(f"nobody knows of it in the end: {document}")
        elif logged.marks[mark] == 1:
            counted.append(document)
        elif logged.marks[mark]:
            wrong.append(f"the log has {logged.marks[mark]} times what was sent once: {document}")
    return counted, wrong
