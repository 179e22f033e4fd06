"""The two ways checked lines are sent: as they are, or packed into frames."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from pipeline.producer import NotStoredError, Producer, Receipt
from pipeline.producer.delivery import only_counted
from pipeline.producer.lines import LineProducer

if TYPE_CHECKING:
    from pipeline.produce.checking import Checked
    from schemas.addresses import KafkaAddress


class LineSender:
    """A Sender: each line is a message, as it is."""

    def __init__(self, kafka: KafkaAddress, timeout_s: float) -> None:
        """Connects; blocks, and raises what LineProducer raises."""
        self._producer = LineProducer(kafka, delivery_timeout=timeout_s)

    @property
    def unknown(self) -> int:
        return self._producer.unknown

    def send(self, checked: Checked) -> Receipt:
        return self._producer.send(checked.lines, checked.columns)

    def close(self) -> None:
        self._producer.close()


class FrameSender:
    """A Sender: many lines are a frame, and those of one cell become one."""

    def __init__(self, kafka: KafkaAddress, timeout_s: float) -> None:
        """Connects; blocks, and raises what Producer raises."""
        self._producer = Producer(kafka, delivery_timeout=timeout_s, on_unknown=only_counted)

    @property
    def unknown(self) -> int:
        return self._producer.unknown + self._producer.not_stored

    def send(self, checked: Checked) -> Receipt:
        # As when lines are sent as they are: what rules refuse becomes a dead letter.
        return self._producer.increment_many(checked.columns, check_rules=False)

    def close(self) -> None:
        with contextlib.suppress(NotStoredError):
            self._producer.close(0)
