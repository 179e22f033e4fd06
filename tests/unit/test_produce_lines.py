"""Lines go where the producer would send their increments; a part of them is one thing to await."""

from collections import Counter
from typing import cast

import numpy as np
import pyarrow as pa
import pytest
from confluent_kafka import KafkaError, Message

from pipeline.planning.plan import Plan
from pipeline.producer.lines import _Part
from pipeline.producer.packing import placed
from pipeline.producer.receipts import (
    NotStoredError,
    Outcome,
    Receipt,
    UnknownDeliveryError,
)
from pipeline.sharding import chooser, counter_partition, id_partition
from schemas.frames import FRAME_SCHEMA

AT_MS = 1_760_000_000_000


def test_a_line_goes_where_its_counter_or_its_id_says() -> None:
    rows = [
        {"counter": f"a:{n % 30}", "id": f"i{n}" if n % 3 == 0 else None} for n in range(900)
    ] + [{"counter": "hot:x", "id": None} for _ in range(600)]
    event = {"delta": 1, "at": AT_MS, "member": None, "region": ""}
    columns = pa.Table.from_pylist([{**event, **row} for row in rows], FRAME_SCHEMA)
    plan = Plan(partitions=8, id_partitions=5, shards={"hot:x": 3})
    partitions, load = placed(columns, plan, chooser("random", seed=1))

    hot = Counter[int]()
    for row, partition in zip(rows, partitions.tolist(), strict=True):
        if row["counter"] == "hot:x":
            hot[partition] += 1
        elif row["id"] is None:
            assert partition == counter_partition(str(row["counter"]), 0, 8)
        else:
            assert partition == id_partition(str(row["counter"]), row["id"], 5)
    assert set(hot) == {counter_partition("hot:x", shard, 8) for shard in range(3)}
    assert min(hot.values()) > 150
    reported = dict(zip(load.counters.to_pylist(), load.rows.tolist(), strict=True))
    assert reported["hot:x"] == 600
    assert sum(reported.values()) == 600 + 600


class Word:
    """What Kafka says of a message, as far as it is looked at."""

    def __init__(self, offset: int | None) -> None:
        self._offset = offset

    def offset(self) -> int | None:
        return self._offset


def part_of(lines: int) -> tuple[_Part, Receipt, list[int]]:
    outcome, settled = Outcome(), list[int]()
    outcome.packed(np.zeros(lines, np.int64), 1)
    part = _Part(
        outcome, 0, 6, lines, began_s=0.0, on_settled=lambda part: settled.append(part.unknown)
    )
    return part, Receipt(outcome, 0, lines), settled


def tell(part: _Part, offset: int | None, error: KafkaError | None = None) -> None:
    part.told(error, cast(Message, Word(offset)))


def test_a_part_is_stored_when_all_its_lines_are() -> None:
    part, receipt, settled = part_of(3)
    for offset in (11, 13):
        tell(part, offset)
        assert not receipt.is_settled
    tell(part, 12)
    assert (receipt.places(0), settled) == ({6: 13}, [0])


@pytest.mark.parametrize("offset", [None, -1001])
def test_a_part_with_a_line_nobody_knows_of_is_unknown(offset: int | None) -> None:
    part, receipt, settled = part_of(3)
    tell(part, 11)
    tell(part, offset, KafkaError(KafkaError._MSG_TIMED_OUT))
    tell(part, offset)
    assert settled == [2]
    with pytest.raises(UnknownDeliveryError, match="timed out"):
        receipt.places(0)


def test_lines_were_never_sent_only_if_none_of_their_part_was() -> None:
    part, receipt, settled = part_of(2)
    part.settle_one(-1, NotStoredError("never sent"))
    part.settle_one(-1, NotStoredError("never sent"))
    assert settled == [2]
    with pytest.raises(NotStoredError):
        receipt.places(0)

    part, receipt, settled = part_of(2)
    part.settle_one(-1, NotStoredError("never sent"))
    tell(part, 4)
    assert settled == [1]
    with pytest.raises(UnknownDeliveryError, match="only a part is stored"):
        receipt.places(0)
