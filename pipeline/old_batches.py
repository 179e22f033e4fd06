"""Batches of Kafka's formats 0 and 1, which no client has written since 2017.

Workers do not read their records: such a batch is one that cannot be read, so one dead letter
(pipeline/record_batches.py). A broker that still holds some hands them out as they are, and
aiokafka's objects for them lack what those of format 2 have.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

_START = struct.Struct(">qiIbb")
_TIME_MS = struct.Struct(">q")
_NO_TIME_MS = -1


class OldBatch:
    """A batch of an old format, with what the transport asks a batch for.

    It is in the place of its last record, which is the only one that its header tells.
    """

    is_control_batch = False
    is_transactional = False
    producer_id = None

    def __init__(self, batch: Any, raw: bytes) -> None:
        self.base_offset, _, self.crc, magic, _ = _START.unpack_from(raw)
        self.next_offset: int = self.base_offset + 1
        self.max_timestamp: int = _NO_TIME_MS
        if magic:
            (self.max_timestamp,) = _TIME_MS.unpack_from(raw, _START.size)
        self.validate_crc = batch.validate_crc
        self._batch = batch

    def __iter__(self) -> Iterator[Any]:
        """Its records as aiokafka reads them, for consumers of other topics. May raise anything."""
        return iter(self._batch)
