"""Sends what the producer would not take: records that the pipeline refuses."""

from __future__ import annotations

import threading
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from pipeline import topics
from pipeline.producer.client import Client
from pipeline.producer.receipts import Places

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pipeline.clock import Clock
    from schemas.addresses import KafkaAddress

_ROOM_POLL_S = 0.5


class BadSender:
    """Sends values as they are, to any partition. Only one thread may send."""

    def __init__(
        self, kafka: KafkaAddress, clock: Clock, timeout_s: float, seed: Sequence[int]
    ) -> None:
        """Blocks until it knows the partitions; raises as `topics.made_partitions` does."""
        self.stored = 0
        self.unknown = 0
        self.places = Places()
        self._sent = 0
        self._lock = threading.Lock()
        self._partitions = topics.made_partitions(kafka)
        self._rng = np.random.default_rng(list(seed))
        self._client = Client(kafka, clock, delivery_timeout_s=timeout_s)

    @property
    def is_settled(self) -> bool:
        """Whether all is known of what was sent."""
        return self.stored + self.unknown == self._sent

    def send(self, values: Sequence[bytes]) -> None:
        """Blocks while too much waits for Kafka's word. Raises TryAgainError."""
        self._client.wait_for_room(_ROOM_POLL_S)
        partitions = self._rng.integers(self._partitions, size=len(values)).tolist()
        for value, partition in zip(values, partitions, strict=True):
            self._sent += 1
            self._client.send(
                topics.INCREMENTS,
                partition,
                value,
                None,
                on_stored=partial(self._on_stored, partition),
                on_unknown=self._on_unknown,
            )

    def close(self) -> None:
        """Give up on what is not confirmed by now. Blocks shortly."""
        self._client.close()

    def _on_stored(self, partition: int, offset: int) -> None:
        with self._lock:
            self.stored += 1
            self.places.add([(partition, offset)])

    def _on_unknown(self, _reason: str) -> None:
        with self._lock:
            self.unknown += 1
