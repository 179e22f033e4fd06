"""Sends increments to the log: `from pipeline.producer import Producer`."""

from pipeline.producer.aio import AsyncProducer
from pipeline.producer.buffer import BufferFullError
from pipeline.producer.delivery import Unknown
from pipeline.producer.producer import Producer
from pipeline.producer.receipts import NotStoredError, Places, Receipt, UnknownDeliveryError

__all__ = [
    "AsyncProducer",
    "BufferFullError",
    "NotStoredError",
    "Places",
    "Producer",
    "Receipt",
    "Unknown",
    "UnknownDeliveryError",
]
