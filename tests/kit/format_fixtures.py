"""Writes bytes of the present formats: `python -m tests.kit.format_fixtures`.

They go to tests/fixtures/formats. A file is made once, when its format gets a new version, and
never again: it stands for what people have stored. So files that are there are left alone.
tests/unit/formats reads them; what they hold is told there by hand. Those of formats that are no
longer written have no maker here: changelog-1.json was written by the last version that had it.
"""

import io
import json
import sqlite3
import sys
from collections.abc import Callable
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec
import numpy as np

from pipeline.absorb import FLUSH_KIND, HEARTBEAT_KIND
from pipeline.builds.following import HANDOVER_KEY, HANDOVER_KIND, HandoverValue
from pipeline.changelog import checkpoint_records, filter_records, member_records, sketch_records
from pipeline.dead_letters import DeadLetter
from pipeline.embedded.log import sidecar
from pipeline.embedded.log.meta import CommittedOffset, Meta
from pipeline.embedded.log.partition import Partition
from pipeline.embedded.log.topic_config import TopicConfig
from pipeline.lanes import CONTENT_TYPE_HEADER, KIND_HEADER, RETRY_HEADER
from pipeline.once.members import MemberKeys
from pipeline.planning.plan import Hint, OverSharded, Split
from pipeline.produce.progress import Progress, mark
from pipeline.rules import RULES_KIND, CountingRules, FamilyRules
from pipeline.shard import BatchMark, Fetched, Row, Shard
from pipeline.strict.changelog import record_key, record_value
from pipeline.strict.state import CounterState
from schemas.adjustments import ADJUSTMENT_KIND, Adjustment
from schemas.frames import FRAME_CONTENT_TYPE, encode_frame
from schemas.strict import check_command
from sketches.distinct import Distinct
from sketches.frequency import Frequency
from sketches.heavy import Heavy
from sketches.morris import Morris
from tests.unit.embedded_log.batches import make_batch

FOLDER = Path(__file__).parent.parent / "fixtures" / "formats"
T0_MS = 1_760_000_400_000

FAMILIES = {
    "likes": FamilyRules(once_per_member=True),
    "seen": FamilyRules(once_per_member=True, once_per_error=0.01),
    "tag": FamilyRules(sketched=True, sketch_error=0.05, sketch_keys=10),
}
RULES = CountingRules(7, families=FAMILIES, id_partitions=8)


def a_shard() -> Shard:
    """Partition 3 after eight records: cells, an id twice, members, a filter, a sketch."""
    shard = Shard(3, rules=RULES, replica="main", last_batch=BatchMark(0, 7, 0))
    rows = [
        Row(0, 0, "views:home", "eu", T0_MS, 5, None, None),
        Row(1, 0, "views:home", "eu", T0_MS, -2, "order-1", "ada"),
        Row(2, 0, "views:home", "eu", T0_MS, -2, "order-1", "ada"),
        Row(3, 0, "likes:post-1", "", T0_MS, 1, None, "ada"),
        Row(4, 0, "likes:post-1", "", T0_MS, 1, None, "ada"),
        Row(5, 0, "seen:page", "", T0_MS, 1, None, "bob"),
        Row(6, 0, "tag:#cats", "us", T0_MS, 3, None, None),
        Row(7, 0, "views:home", "us", T0_MS - 3_600_000, 4, None, None),
    ]
    told = Fetched(np.arange(9), np.full(9, T0_MS), 9, refused=[(8, 0)])
    assert shard.absorb_rows(rows, told) == []
    return shard


def changelog() -> bytes:
    snapshot = a_shard().snapshot(checkpoint=True)
    assert snapshot.members is not None
    sketches = chain.from_iterable(
        records for part in snapshot.sketch_values for _, records in sketch_records(part, 0, 1)
    )
    members = [
        *member_records(snapshot.members, 0, 1, 1),
        *chain.from_iterable(filter_records(one, 0, 1) for one in snapshot.members.filters),
    ]
    return _pairs(checkpoint_records(snapshot, 1, sketches, members))


def changelog_filter() -> bytes:
    """Partition 3 at two checkpoints: a whole filter of two stages, then five keys by number."""
    families = {"seen": FamilyRules(once_per_member=True, once_per_error=0.1)}
    shard = Shard(3, rules=CountingRules(7, families=families), last_batch=BatchMark(0, 7, 0))
    written: dict[bytes, bytes | None] = {}
    for name, first, count in (("early", 0, 4_400), ("late", 4_400, 5)):
        at = range(first, first + count)
        rows = [Row(n, 0, "seen:page", "", T0_MS, 1, None, f"{name}-{n - first}") for n in at]
        told = Fetched(np.array(at), np.full(count, T0_MS), at.stop)
        assert shard.absorb_rows(rows, told) == []
        snapshot = shard.snapshot(checkpoint=True)
        assert snapshot.members is not None
        [saved] = snapshot.members.filters
        records = filter_records(saved, 0, 1)
        written.update(checkpoint_records(snapshot, 1, members=records))
        keys = MemberKeys([], {saved.name: [key for key, _ in records]})
        shard.members.confirm(snapshot.members, keys)
    return _pairs(written.items())


def log_records() -> bytes:
    """Every kind of record that `tally.increments` may have, in log order."""
    adjustment = Adjustment(
        counter="views:home", by=-4, region="eu", grain="1m", window=T0_MS,
        who="ada", why="a test", id="mend-1", before=5, after=1, at=T0_MS,
    )  # fmt: skip
    frame = encode_frame(
        {
            "counter": ["views:home", "views:home", "likes:post-1"],
            "delta": [2, -1, 1],
            "at": [T0_MS, None, T0_MS],
            "member": ["ada", None, "ada"],
            "region": ["eu", None, None],
            "id": ["order-1", None, None],
        }
    )
    event = {"counter": "views:home", "region": "eu", "at": T0_MS, "id": "order-1", "delta": 2}
    records: list[tuple[dict[str, str], bytes | None, bytes]] = [
        ({KIND_HEADER: RULES_KIND}, None, RULES.bytes),
        ({}, None, b'{"counter": "views:home", "region": "eu", "member": "bob", "delta": 5}'),
        ({CONTENT_TYPE_HEADER: FRAME_CONTENT_TYPE}, None, frame),
        ({}, None, json.dumps(event).encode()),
        ({KIND_HEADER: ADJUSTMENT_KIND}, b"views:home", adjustment.bytes()),
        ({KIND_HEADER: HEARTBEAT_KIND}, None, b""),
        ({KIND_HEADER: FLUSH_KIND}, None, b""),
        ({KIND_HEADER: HANDOVER_KIND}, HANDOVER_KEY, msgspec.json.encode(HandoverValue(2))),
        ({}, None, b'{"counter": "views:home", "delta": 0}'),
        ({RETRY_HEADER: f"8/0/{T0_MS}"}, None, b'{"counter": "views:home", "delta": 7}'),
        ({RETRY_HEADER: f"8/0/{T0_MS}"}, None, b'{"counter": "views:home", "delta": 7}'),
    ]
    return _json(
        [
            [headers, None if key is None else key.hex(), value.hex()]
            for headers, key, value in records
        ]
    )


def strict_commands() -> bytes:
    asked: list[dict[str, object]] = [
        {"id": "a", "counter": "stock:shoes", "op": "increment", "amount": 10},
        {"id": "b", "counter": "stock:shoes", "op": "decrement", "amount": 9, "floor": 2},
        {"id": "c", "counter": "stock:shoes", "op": "acquire", "limit": 2, "window_ms": 60_000},
        {"id": "a", "counter": "stock:shoes", "op": "decrement"},
    ]
    return _json([check_command(one).record().decode() for one in asked])


def strict() -> bytes:
    state = CounterState()
    asked: list[tuple[str, dict[str, object]]] = [
        ("increment", {"amount": 10}),
        ("decrement", {"amount": 3}),
        ("decrement", {"amount": 99}),
        ("acquire", {"limit": 2, "window_ms": 60_000, "window": "sliding"}),
    ]
    for number, (op, fields) in enumerate(asked):
        command = {"id": f"id-{number}", "counter": "stock:shoes", "op": op, **fields}
        assert state.decide(check_command(command), number, T0_MS + number) is not None
    return _pairs([(record_key("stock:shoes", b"writer"), record_value(state))])


def sketches() -> bytes:
    members = [f"member-{number}" for number in range(1000)]
    distinct = Distinct(12)
    distinct.add_many(members)
    frequency = Frequency.for_error(0.05)
    frequency.add_many(["a", "b", "a"], [1, 2, 3], offsets=[3, 4, 5])
    heavy = Heavy(10)
    heavy.add_many(["a", "b", "a"], [1, 2, 3], offsets=[3, 4, 5])
    morris = Morris(0.1, 4)
    morris.add_many([0, 1, 1], [1, 100, 1000], partition=0, offsets=[3, 4, 5])
    made = {"distinct": distinct, "frequency": frequency, "heavy": heavy, "morris": morris}
    return _json({name: one.to_bytes().hex() for name, one in made.items()})  # type: ignore[attr-defined]  # each has it


def rules() -> bytes:
    return RULES.bytes


def plan() -> bytes:
    records = [
        (b"rules", RULES.bytes),
        (b"shards:views:home", msgspec.json.encode(Split(4, 1000.0, "rate", T0_MS))),
        (b"hint:views:sale", msgspec.json.encode(Hint(8, T0_MS + 1, "expect"))),
        (b"over-sharded", msgspec.json.encode(OverSharded({"views:old": 16}, T0_MS))),
    ]
    return _pairs(records)


def progress() -> bytes:
    found = mark(io.BytesIO(b"{}\n{}\n"))
    made = Progress(found.size, found.fingerprint, True, 6, 2, 1, 1, 0, "0:1")
    return msgspec.json.encode(made) + b"\n"


def letter() -> bytes:
    made = DeadLetter(3, 8, 0, T0_MS, "delta: 0 changes nothing", b'{"delta": 0}', 12)
    headers = [[name, value.hex()] for name, value in made.headers()]
    return _json({"key": made.key().hex(), "value": made.value.hex(), "headers": headers})


def segment() -> bytes:
    return _log_files()["segment"]


def segment_sidecar() -> bytes:
    return _log_files()["sidecar"]


def log_meta() -> bytes:
    return _log_files()["meta"]


def _log_files() -> dict[str, bytes]:
    with TemporaryDirectory() as name:
        folder = Path(name)
        partition = Partition(folder, TopicConfig({}), 0, T0_MS, lambda *_: None)
        batch = make_batch([(b"k", b"v"), (None, b"w")], producer_id=1000, epoch=0, sequence=0)
        partition.append(batch, T0_MS)
        known = sidecar.sidecar_of(partition.active, partition.producers.snapshot())
        sidecar.save(partition.active.sidecar_path, known)
        partition.close()
        meta = Meta(folder / "meta.sqlite", sync_each_commit=False)
        meta.add_topic("tally.increments", 8, {"retention.ms": "77"})
        meta.commit_offsets("tally-build-1", [CommittedOffset("tally.increments", 3, 9, 0, "n")])
        meta.next_producer_id()
        meta.close()
        database = sqlite3.connect(folder / "meta.sqlite")
        database.execute("PRAGMA journal_mode=DELETE")
        database.execute("VACUUM")
        database.close()
        return {
            "segment": partition.active.path.read_bytes(),
            "sidecar": partition.active.sidecar_path.read_bytes(),
            "meta": (folder / "meta.sqlite").read_bytes(),
        }


MAKERS: dict[str, Callable[[], bytes]] = {
    "changelog-2.json": changelog,
    "changelog-2-filter.json": changelog_filter,
    "log-records.json": log_records,
    "strict-commands.json": strict_commands,
    "strict-changelog-1.json": strict,
    "sketches-1.json": sketches,
    "rules-1.json": rules,
    "shard-plan.json": plan,
    "produce-progress-1.json": progress,
    "dead-letter-1.json": letter,
    "segment-2.log": segment,
    "sidecar-2.meta": segment_sidecar,
    "log-meta-1.sqlite": log_meta,
}


def _pairs(records: object) -> bytes:
    pairs = [[key.hex(), value.hex()] for key, value in records]  # type: ignore[attr-defined]  # pairs of bytes
    return _json(pairs)


def _json(document: object) -> bytes:
    return json.dumps(document, indent=1).encode() + b"\n"


def main() -> int:
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name, make in MAKERS.items():
        path = FOLDER / name
        if not path.exists():
            path.write_bytes(make())
            print(f"{path}: {path.stat().st_size} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
