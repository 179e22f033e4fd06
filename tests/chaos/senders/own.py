"""Increments sent by Tally's own producer, which follows the shard plan."""

import time
from collections.abc import Iterable, Mapping

from pipeline.errors import TryAgainError
from pipeline.producer import NotStoredError, Producer, Receipt
from pipeline.producer.delivery import only_counted
from tests.kit.truth.record import Document

PATIENT_S = 1800.0
IMPATIENT_S = 3.0
RETRY_S = 0.5
ROOM_S = 1.0


class Own:
    """A Way. A patient one waits until all is known, so increments need nothing to be told by.

    An impatient one gives up after seconds: what has no id is then unknown, and never sent again.
    """

    all_need_ids = False
    sends_refusable = False

    def __init__(self, kafka: str, *, is_patient: bool) -> None:
        """Blocks until the log answers."""
        self.all_have_marks = not is_patient
        self._waiting: dict[int, list[Receipt]] = {}
        self._not_stored: list[int] = []
        self._producer = _producer(kafka, PATIENT_S if is_patient else IMPATIENT_S)

    def send(self, documents: Mapping[int, Document]) -> None:
        for number, document in documents.items():
            if not self._producer.has_room(ROOM_S):
                self._not_stored.append(number)
                continue
            fields = dict(document)
            receipt = self._producer.increment(fields.pop("counter"), fields.pop("delta"), **fields)
            self._waiting.setdefault(number, []).append(receipt)

    def send_refusable(self, number: int, text: str) -> None:
        raise NotImplementedError("the producer refuses it itself")

    def acknowledged(self, timeout_s: float) -> Iterable[int]:
        until_s = time.monotonic() + timeout_s
        while time.monotonic() < until_s and not self._all_settled():
            time.sleep(timeout_s / 10)
        for number, receipts in list(self._waiting.items()):
            for receipt in [one for one in receipts if one.is_settled]:
                receipts.remove(receipt)
                try:
                    receipt.places(0)
                    yield number
                except NotStoredError as error:
                    print(f"{number} is sent again: {error}", flush=True)
                    self._not_stored.append(number)
                except TryAgainError:
                    pass  # Nobody knows. What has an id is sent again in time.
            if not receipts:
                del self._waiting[number]

    def not_stored(self) -> Iterable[int]:
        taken, self._not_stored = self._not_stored, []
        return taken

    def is_idle(self) -> bool:
        return not self._waiting

    def _all_settled(self) -> bool:
        return all(one.is_settled for receipts in self._waiting.values() for one in receipts)


def _producer(kafka: str, delivery_timeout_s: float) -> Producer:
    while True:
        try:
            return Producer(kafka, delivery_timeout=delivery_timeout_s, on_unknown=only_counted)
        except TryAgainError:
            time.sleep(RETRY_S)
