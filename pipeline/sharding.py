"""Which partition an increment goes to. Pure; the hash is stable for ever and pinned by tests.

Any event may land on any partition without changing a sum, so this is about load alone, except for
events with an id: all occurrences of an id must meet in one partition to be counted once.

The hash is CRC-32, which is what librdkafka's default partitioner computes of a message key. So a
foreign producer on librdkafka that sets the key to `counter`, or to `counter NUL id` where there is
an id, puts events where Tally would.
"""

from zlib import crc32


def counter_partition(counter: str, shard: int, partitions: int) -> int:
    """The partition of shard number `shard` of a counter."""
    return (crc32(counter.encode()) + shard) % partitions


def id_partition(counter: str, id_: str, first_partitions: int) -> int:
    """The partition of an event with an id; `first_partitions` is how many the topic began with."""
    return crc32(f"{counter}\0{id_}".encode()) % first_partitions
