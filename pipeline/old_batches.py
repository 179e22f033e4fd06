"""Batches of Kafka's formats 0 and 1, which no client has written since 2017.

Workers do not read their records: such a batch is one that cannot be read, so one dead letter
(pipeline/kept_batches.py). A broker that still holds some hands them out as they are, and
aiokafka's objects for them lack what those of format 2 have.
"""

from __future__ import annotations

import struct
from zlib import crc32

from aiokafka.errors import CorruptRecordException
from aiokafka.record.legacy_records import LegacyRecordBatch

from pipeline.found_records import MAGIC_AT

OLD_BYTES_MIN = 26
"""Of a batch of format 0 with one record that has neither key nor value."""

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

    def __init__(self, raw: bytes) -> None:
        self._raw = raw
        self.base_offset, _, self.crc, self._magic, _ = _START.unpack_from(raw)
        self.next_offset: int = self.base_offset + 1
        has_time = self._magic > 0
        self.max_timestamp: int = (
            _TIME_MS.unpack_from(raw, _START.size)[0] if has_time else _NO_TIME_MS
        )

    def validate_crc(self) -> bool:
        """Whether it has the checksum that it says it has."""
        return bool(crc32(memoryview(self._raw)[MAGIC_AT:]) == self.crc)


def old_batch(raw: bytes) -> OldBatch:
    """The batch in these bytes, OLD_BYTES_MIN at least.

    Raises CorruptRecordException when it is none and its checksum does not hold either: to fetch it
    again may then help.
    """
    batch = OldBatch(raw)
    try:
        LegacyRecordBatch(raw, raw[MAGIC_AT])  # which unpacks nothing yet
    except Exception as error:
        if not batch.validate_crc():
            raise CorruptRecordException(f"a batch cannot be read: {error}") from error
    return batch
