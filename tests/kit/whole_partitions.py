"""A partition of the embedded log, as a consumer reads it."""

from pipeline.embedded.log.partition import Partition


def all_of(partition: Partition, max_bytes: int) -> bytes:
    """All of it, by fetches of about so many bytes; each must bring something."""
    found, offset = bytearray(), partition.start_offset
    while offset < partition.end_offset:
        data, following = partition.read(offset, max_bytes)
        assert data
        assert following > offset
        found += data
        offset = following
    return bytes(found)
