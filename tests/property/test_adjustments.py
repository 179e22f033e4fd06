"""What becomes of adjustments in a log does not depend on where fetches are cut."""

import json

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.absorb import absorb
from pipeline.fetches import Fetch
from pipeline.shard import Shard
from schemas.adjustments import ADJUSTMENT_KIND
from schemas.records import Records

T0 = 20_000 * 86_400_000
KIND = (("tally-kind", ADJUSTMENT_KIND.encode()),)

Record = tuple[str, int]
"""What it is, and how much later than the last one the log took it, possibly a little before."""

RECORDS = st.lists(
    st.tuples(
        st.sampled_from(["event", "good", "ahead", "bad", "heartbeat"]),
        st.integers(-30_000, 200_000),
    ),
    min_size=1,
    max_size=30,
)


def value(what: str, number: int) -> bytes:
    if what == "event":
        return b'{"counter": "a:b"}'
    if what in {"bad", "heartbeat"}:
        return b"{}"
    made = {"id": str(number), "counter": "a:b", "by": 1, "who": "w", "why": "y", "at": T0}
    # Ten minutes ahead of the first record: by then log time may have come near enough.
    window = {"grain": "1m", "window": T0 + 600_000} if what == "ahead" else {}
    return json.dumps({**made, **window}).encode()


def records(log: list[Record], times_ms: list[int], first: int, end: int) -> Records:
    kinds = {"event": (), "heartbeat": (("tally-kind", b"heartbeat"),)}
    span = range(first, end)
    return Records(
        0,
        np.arange(first, end, dtype=np.int64),
        np.array(times_ms[first:end], np.int64),
        [None] * len(span),
        [value(log[number][0], number) for number in span],
        [kinds.get(log[number][0], KIND) for number in span],
    )


def truth(log: list[Record], times_ms: list[int]) -> tuple[list[tuple[int, int]], list[int]]:
    """Places and log times of those that hold, and places of those that are refused."""
    held, refused, log_ms = [], [], 0
    for offset, ((what, _), at_ms) in enumerate(zip(log, times_ms, strict=True)):
        log_ms = max(log_ms, at_ms)
        if what == "bad" or (what == "ahead" and log_ms + 300_000 < T0 + 600_000):
            refused.append(offset)
        elif what in {"good", "ahead"}:
            held.append((offset, log_ms))
    return held, refused


@settings(deadline=None)
@given(log=RECORDS, cuts=st.sets(st.integers(1, 29)), overlap=st.integers(0, 3))
def test_any_cut_of_the_log_gives_the_same_adjustments(
    log: list[Record], cuts: set[int], overlap: int
) -> None:
    times_ms = [T0 + int(at) for at in np.cumsum([step for _, step in log])]
    shard = Shard(0)
    refused: list[int] = []
    start = 0
    for end in sorted({*(cut for cut in cuts if cut < len(log)), len(log)}):
        first = max(0, start - overlap)
        fetch = Fetch(first, end, records(log, times_ms, first, end))
        letters = absorb(shard, fetch).dead_letters
        refused += [one.offset for one in letters if one.reason.startswith("adjustment: ")]
        start = end
    held, expected = truth(log, times_ms)
    assert [(one.offset, one.log_ms) for one in shard.adjustments] == held
    assert refused == expected


def test_a_confirmed_flush_lets_go_of_what_it_had_and_of_nothing_newer() -> None:
    log: list[Record] = [("good", 0), ("good", 1), ("good", 1)]
    times_ms = [T0, T0 + 1, T0 + 2]
    shard = Shard(0)
    absorb(shard, Fetch(0, 2, records(log, times_ms, 0, 2)))
    snapshot = shard.snapshot(checkpoint=True)
    absorb(shard, Fetch(2, 3, records(log, times_ms, 2, 3)))
    assert len(snapshot.adjustments) == 2
    snapshot.confirm("checkpoint")
    assert len(shard.adjustments) == 3
    snapshot.confirm("flush")
    assert [one.offset for one in shard.adjustments] == [2]


def test_what_only_warms_a_shard_up_is_not_kept() -> None:
    log: list[Record] = [("good", 0), ("good", 60_000)]
    shard = Shard(0, counts_from_ms=T0 + 60_000)
    absorb(shard, Fetch(0, 2, records(log, [T0, T0 + 60_000], 0, 2)))
    assert [one.offset for one in shard.adjustments] == [1]
