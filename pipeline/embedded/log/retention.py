"""Which segments a topic no longer keeps. Pure."""

from collections.abc import Sequence
from typing import NamedTuple

from pipeline.embedded.log.topic_config import TopicConfig

KEEP_ALL = -1


class Extent(NamedTuple):
    """A segment as retention sees it: how large, and when its newest record was made."""

    size: int
    newest_ms: int


def expired_count(extents: Sequence[Extent], config: TopicConfig, now_ms: int) -> int:
    """How many segments from the oldest on may go; the last one may be among them.

    By time a segment goes when its newest record is too old. By size, as long as what is left is
    still at least retention.bytes.
    """
    if not config.is_deleted:
        return 0
    by_time = 0
    retention_ms = config.number("retention.ms")
    if retention_ms != KEEP_ALL:
        for extent in extents:
            if extent.newest_ms >= now_ms - retention_ms:
                break
            by_time += 1
    by_size = 0
    retention_bytes = config.number("retention.bytes")
    if retention_bytes != KEEP_ALL:
        excess = sum(extent.size for extent in extents) - retention_bytes
        for extent in extents[:-1]:
            if extent.size > excess:
                break
            excess -= extent.size
            by_size += 1
    return max(by_time, by_size)
