"""Values of records in `tally.load`, a line each, and what the leader plans by them."""

from __future__ import annotations

import msgspec

from pipeline.errors import BadInputError
from pipeline.planning.load import LoadReport, decode, encode
from pipeline.planning.plan import SHARDS_PREFIX, PlanRecords
from pipeline.planning.planner import COUNTERS_MAX, Planner, Thresholds

PROMISE = "a report within its bounds, by which shards are planned, or BadInputError"

_NOW_MS = 1_790_000_000_000
_PARTITIONS = 6
_THRESHOLDS = Thresholds(rate_max=1_000.0, delivery_p99_ms=500.0, cool_ms=60_000.0)


def seeds() -> list[bytes]:
    hot = LoadReport("p-1", _NOW_MS, 1_000, [("likes:a", 9_000), ("é:b", 1)], 9_001, {0: 900.5}, 3)
    slow = LoadReport("p-2", 0, 1, [("likes:a", 300)], 400, dict.fromkeys(range(6), 1e9))
    head = b'{"producer":"p","at_ms":1,"interval_ms":3600000,"rows":9007199254740992,'
    return [
        encode(hot),
        b"\n".join(map(encode, (hot, slow, hot))),
        head + b'"counters":[["a:b",9007199254740992]],"delivery_p99_ms":{"99999":1e-300}}',
        head + b'"counters":[["\\ud83d\\ude00",1.0],["",1]]}',
        head + b'"counters":[],"x":' + b"[" * 3000,
        b'{"producer":"\xff"}',
    ]


def check(data: bytes) -> None:
    one, other, records = Planner(_THRESHOLDS), Planner(_THRESHOLDS), PlanRecords()
    for line in data.split(b"\n"):
        try:
            report = decode(line)
        except BadInputError as error:
            assert str(error).startswith("not a load report: ")
            continue
        assert decode(encode(report)) == report
        one.add(report, _NOW_MS)
        other.add(report, _NOW_MS)
    changes = one.decide(_NOW_MS, _PARTITIONS, records)
    assert changes == other.decide(_NOW_MS, _PARTITIONS, records), "two leaders decide the same"
    assert len(changes) <= COUNTERS_MAX
    for counter, split in changes.items():
        assert split is not None
        assert 1 < split.n <= _PARTITIONS
        records.take(SHARDS_PREFIX + counter.encode(), msgspec.json.encode(split))
        assert records.splits[counter] == split
    assert not one.decide(_NOW_MS, _PARTITIONS, records), "what is planned is not planned again"
