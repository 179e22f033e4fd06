"""What one member costs: memory, changelog, recovery. A process of its own for each form."""

from __future__ import annotations

import gc
import json
import sys
import time

import msgspec
import numpy as np

from benchmarks._cells import resident_bytes
from pipeline.changelog import filter_records, member_records
from pipeline.once.filters import FilterPart, recovered_filter
from pipeline.once.members import MemberKeys, Members, recovered

AT_ONCE = 20_000
ERROR = 0.001


def fill(members: Members, form: str, count: int) -> dict[bytes, bytes]:
    """So many members, checkpointed as they come; what the changelog holds in the end."""
    held: dict[bytes, bytes] = {}
    for number, start in enumerate(range(0, count, AT_ONCE)):
        names = [f"person-{one}" for one in range(start, start + AT_ONCE)]
        counters = [f"likes:post-{one % 1_000}" for one in range(AT_ONCE)]
        if form == "exact":
            ones, offsets = np.ones(AT_ONCE, np.int64), np.full(AT_ONCE, number)
            members.count_many(counters, names, ones, offsets)
        else:
            members.add_many("likes", ERROR, counters, names)
        snapshot = members.snapshot(number + 1)
        facts = member_records(snapshot, 0, 1, number)
        filters = {one.name: filter_records(one, 0, 1) for one in snapshot.filters}
        held.update(facts)
        for records in filters.values():
            held.update(records)
        keys = MemberKeys(list(dict(facts)), {name: list(dict(r)) for name, r in filters.items()})
        for key in members.confirm(snapshot, keys):
            held.pop(key, None)
    return held


def recover(form: str, held: dict[bytes, bytes], known: Members, count: int) -> int:
    """How many members a new owner knows."""
    if form == "exact":
        segments = (((number, 0), *record) for number, record in enumerate(held.items()))
        return len(recovered(segments, count, {}))
    [(name, filled)] = known.filled().items()
    places = (msgspec.msgpack.decode(key)[6:] for key in held)
    parts = [
        FilterPart._make((name, *place, key, value))
        for place, (key, value) in zip(places, held.items(), strict=True)
    ]
    found = recovered_filter(name, filled, parts)
    assert found is not None
    return found.filter.filled


def main() -> None:
    form, count = sys.argv[1], int(sys.argv[2])
    fill(Members(), form, AT_ONCE)
    gc.collect()
    before = resident_bytes()
    members = Members()
    held = fill(members, form, count)
    changelog_bytes = sum(len(key) + len(value) for key, value in held.items())
    gc.collect()
    memory_bytes = resident_bytes() - before - changelog_bytes
    started = time.process_time()
    known = recover(form, held, members, count)
    recovery_s = time.process_time() - started
    assert abs(known - count) <= ERROR * count
    figures = {
        "memory_bytes": memory_bytes / count,
        "changelog_bytes": changelog_bytes / count,
        "recovery_us": recovery_s / count * 1e6,
    }
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
