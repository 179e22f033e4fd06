"""Increments sent by a foreign client of Kafka, one JSON record or one Arrow frame at a time."""

import io
import json
import random
import zlib
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

import pyarrow as pa
from confluent_kafka import KafkaError, Producer

from tests.kit.truth.kinds import ONCE, family_of
from tests.kit.truth.record import Document

TOPIC = "tally.increments"
FRAME_HEADERS: dict[str, str | bytes | None] = {
    "content-type": "application/vnd.apache.arrow.stream"
}
FIELDS = ("counter", "delta", "at", "region", "member", "id")
FRAME_ROWS = 8
LOOK_EVERY = 40


class Foreign:
    """A Way that knows of Tally what its documentation says: topic, formats, where ids must go."""

    all_need_ids = False
    all_have_marks = True
    sends_refusable = True

    def __init__(self, kafka: str, id_partitions: int) -> None:
        self._id_partitions = id_partitions
        self._partitions = id_partitions
        self._sends = 0
        self._known: list[int] = []
        self._chance = random.Random(id_partitions)
        settings: dict[str, Any] = {
            "bootstrap.servers": kafka,
            "enable.idempotence": True,
            # As docs/producing.md says: else librdkafka may store twice what has no id.
            "message.timeout.ms": 0,
            "max.in.flight": 1,
            "linger.ms": 5,
            "log_level": 0,
        }
        self._settings = settings
        self._producer = Producer(settings)

    def send(self, documents: Mapping[int, Document]) -> None:
        self._look_for_partitions()
        rest: dict[int, dict[int, Document]] = {}
        for number, document in documents.items():
            rest.setdefault(self._partition(document), {})[number] = document
        for partition, some in rest.items():
            numbers = list(some)
            if len(numbers) >= FRAME_ROWS or self._chance.random() < 0.2:
                self._send(partition, _frame([*some.values()]), numbers, FRAME_HEADERS)
            else:
                for number, document in some.items():
                    self._send(partition, json.dumps(document).encode(), [number])

    def send_refusable(self, number: int, text: str) -> None:
        self._send(self._chance.randrange(self._id_partitions), text.encode(), [number])

    def acknowledged(self, timeout_s: float) -> Iterable[int]:
        self._producer.flush(timeout_s)
        taken, self._known = self._known, []
        return taken

    def not_stored(self) -> Iterable[int]:
        return ()

    def is_idle(self) -> bool:
        return len(self._producer) == 0

    def _partition(self, document: Document) -> int:
        if family_of(document) in ONCE:
            both = f"{document['counter']}\0{document['member']}".encode()
            return zlib.crc32(both) % self._id_partitions
        if "id" in document:
            both = f"{document['counter']}\0{document['id']}".encode()
            return zlib.crc32(both) % self._id_partitions
        return self._chance.randrange(self._partitions)

    def _send(
        self,
        partition: int,
        value: bytes,
        numbers: list[int],
        headers: dict[str, str | bytes | None] | None = None,
    ) -> None:
        told = partial(self._told, numbers)
        try:
            self._producer.produce(
                TOPIC, value, partition=partition, headers=headers, on_delivery=told
            )
        except Exception as error:  # A producer that can write no more: another one begins anew.
            print(f"a new producer after {error}", flush=True)
            self._producer = Producer(self._settings)

    def _told(self, numbers: list[int], error: KafkaError | None, _record: object) -> None:
        if error is None:
            self._known += numbers

    def _look_for_partitions(self) -> None:
        """Now and then, ask whether there are more."""
        self._sends += 1
        if self._sends % LOOK_EVERY == 0:
            try:
                found = self._producer.list_topics(TOPIC, timeout=1).topics[TOPIC].partitions
            except Exception:
                return
            self._partitions = max(self._partitions, len(found))


def _frame(documents: list[Document]) -> bytes:
    types = (pa.string(), pa.int64(), pa.int64(), pa.string(), pa.string(), pa.string())
    columns = {
        name: pa.array([one.get(name) for one in documents], kind)
        for name, kind in zip(FIELDS, types, strict=True)
    }
    table = pa.table(columns)
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue()
