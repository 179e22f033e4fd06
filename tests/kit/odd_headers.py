"""A record batch with header names that no client lets a test send."""

import struct

from aiokafka.record.default_records import _DefaultRecordBatchBuilderPy
from aiokafka.record.util import calc_crc32c

_PLACEHOLDER = b"header-name-to-be-replaced"
ODD_NAME = b"\xff\xfe" + b"x" * (len(_PLACEHOLDER) - 2)
"""No UTF-8."""


def odd_batch(
    *values: bytes, headers: list[tuple[str, bytes]] | None = None, odd: int = 0
) -> bytes:
    """A batch with these values, all with `headers`; record `odd` also has the odd one."""
    builder = _DefaultRecordBatchBuilderPy(
        magic=2,
        compression_type=0,
        is_transactional=0,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        batch_size=1 << 20,
    )
    for number, value in enumerate(values):
        own = [(_PLACEHOLDER.decode(), b"odd")] if number == odd else []
        builder.append(number, 1_760_000_000_000, None, value, [*own, *(headers or [])])
    batch = bytearray(builder.build())
    at = batch.index(_PLACEHOLDER)
    batch[at : at + len(ODD_NAME)] = ODD_NAME
    batch[17:21] = struct.pack(">I", calc_crc32c(bytes(batch[21:])))
    return bytes(batch)
