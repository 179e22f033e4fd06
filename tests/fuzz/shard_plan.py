"""Records of `tally.shard-plan`, and what producers, the leader and people make of them.

An input is a MessagePack list of keys and values, one after the other; what is no bytes is written
as JSON first, so that inputs of the right form need no second encoding.
"""

from __future__ import annotations

from typing import Any

import msgspec

from pipeline.errors import BadInputError
from pipeline.planning.over_sharded import OverShardedWatch
from pipeline.planning.plan import PlanRecords
from pipeline.planning.planner import Planner, Thresholds
from pipeline.planning.reading import ShardsNow
from pipeline.planning.recent import Load
from pipeline.rules import CountingRules, FamilyRules, NewerRulesError
from tests.fuzz import rules_records

PROMISE = "a plan of 1 shard up to the partitions for any counter; only rules that are none refused"

_NOW_MS = 1_790_000_000_000
_PARTITIONS = 6
_RATE_MAX = 1_000.0
_RECORDS_MAX = 200
_THRESHOLDS = Thresholds(_RATE_MAX, 500.0, 60_000.0)
_encode = msgspec.msgpack.Encoder().encode
_decoder: msgspec.msgpack.Decoder[Any] = msgspec.msgpack.Decoder()


def seeds() -> list[bytes]:
    fixed = CountingRules(1, FamilyRules(shards=4), {"likes": FamilyRules(shards=2)}).bytes
    split = {"n": 4, "rate": 1e308, "why": "rate", "at_ms": 1}
    hint = {"n": 3, "until_ms": _NOW_MS + 1, "by": "expect"}
    rules = [part for value in rules_records.seeds() for part in (b"rules", value)]
    return [
        _encode([b"rules", fixed, b"shards:likes:a", split, b"hint:likes:a", hint]),
        _encode([b"shards:a:b", split, b"hint:c:d", hint, b"shards:a:b", None, b"hint:", hint]),
        _encode([b"over-sharded", {"counters": {"a:b": 3}, "at_ms": 5}, b"hint:a:b", hint]),
        _encode([b"over-sharded", {"counters": {"a:b": -1}}, b"over-sharded", None]),
        _encode([b"shards:\xff", split, b"else", b"x", None, None, b"shards:a", b"[" * 3000]),
        _encode([b"hint:a:b", {"n": 0, "until_ms": 2**53}, b"hint:a:b", {"n": 2**40}]),
        _encode(rules),
    ]


def check(data: bytes) -> None:
    records = PlanRecords()
    for key, value in _records(data):
        try:
            records.take(key, value)
        except (BadInputError, NewerRulesError) as error:
            assert key == b"rules"
            assert str(error)
    named = {"a:b", *records.splits, *records.hints}
    plan = records.plan(_PARTITIONS, _PARTITIONS, _NOW_MS)
    assert all(1 <= plan.shards_of(counter) <= _PARTITIONS for counter in named)
    assert all(1 < n <= _PARTITIONS for n in plan.split.values())
    shown = ShardsNow(_PARTITIONS, _NOW_MS, records, Load(dict.fromkeys(named, 1e9), 1e9))
    msgspec.json.encode([shown.document(), shown.status(_RATE_MAX)])
    changes = Planner(_THRESHOLDS).decide(_NOW_MS, _PARTITIONS, records)
    assert all(split is None or 1 < split.n <= _PARTITIONS for split in changes.values())
    watch = OverShardedWatch(_RATE_MAX)
    watch.remember(records.over_sharded.counters, _NOW_MS)
    assert all(1 < n <= _PARTITIONS for n in watch.see(_NOW_MS, plan, {}).values())


def _records(data: bytes) -> list[tuple[bytes | None, bytes | None]]:
    try:
        found = _decoder.decode(data)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        found = [b"shards:a:b", data]
    parts = [_closed(part) for part in (found if isinstance(found, list) else [found])]
    return list(zip(parts[::2], [*parts[1::2], None], strict=False))[:_RECORDS_MAX]


def _closed(part: object) -> bytes | None:
    if part is None or isinstance(part, bytes):
        return part
    try:
        return msgspec.json.encode(part)
    except (TypeError, ValueError, OverflowError, RecursionError):
        return repr(part).encode("utf-8", "replace")
