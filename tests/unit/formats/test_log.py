"""What this version wrote into the log is counted by every later one as it was then.

Logs are kept for long and are replayed, so what is an interface needs its bytes as well.
"""

import numpy as np

from pipeline.absorb import absorb
from pipeline.builds.following import Handover, handovers_in
from pipeline.fetches import Fetch
from pipeline.shard import Shard
from pipeline.strict.state import CounterState, Decision
from schemas.records import Records
from schemas.strict import read_command
from tests.unit.formats.shards import counts
from tests.unit.formats.stored import document

T0_MS = 1_760_000_400_000


def stored_records() -> Records:
    """As partition 3 has them, all at one time."""
    found = document("log-records.json")
    return Records(
        3,
        np.arange(len(found)),
        np.full(len(found), T0_MS),
        [None if key is None else bytes.fromhex(key) for _, key, _ in found],
        [bytes.fromhex(value) for *_, value in found],
        [tuple((name, text.encode()) for name, text in headers.items()) for headers, *_ in found],
    )


def test_every_kind_of_record_in_the_log_counts_as_it_did() -> None:
    shard, records = Shard(3), stored_records()
    absorbed = absorb(shard, Fetch(0, len(records), records))
    assert shard.rules.version == 7
    assert counts(shard) == {
        ("views:home", "eu", T0_MS): (7, 0, 3, 1),
        ("views:home", "", T0_MS): (7, 1, 10, 1),
        ("likes:post-1", "", T0_MS): (1, 0, 2, 0),
    }
    assert absorbed.heartbeats_ms == [T0_MS]
    assert absorbed.flush_asked
    assert [(one.offset, one.row) for one in absorbed.dead_letters] == [(8, 0)]
    [adjusted] = shard.snapshot(checkpoint=True).adjustments
    one = adjusted.adjustment
    assert (adjusted.offset, one.counter, one.by, one.region) == (4, "views:home", -4, "eu")
    assert (one.grain, one.window, one.id, one.who) == ("1m", T0_MS, "mend-1", "ada")
    assert (one.before, one.after, one.at) == (5, 1, T0_MS)


def test_a_record_of_a_kind_that_is_not_known_counts_nothing() -> None:
    event = b'{"counter": "views:home"}'
    size, of_tomorrow = 2, (("tally-kind", b"of-tomorrow"),)
    times = np.full(size, T0_MS)
    records = Records(3, np.arange(size), times, [None] * size, [event] * size, [of_tomorrow, ()])
    shard = Shard(3)
    assert absorb(shard, Fetch(0, size, records)).dead_letters == []
    assert counts(shard) == {("views:home", "", T0_MS): (1, 0, 1, 0)}


def test_a_handover_names_its_build() -> None:
    assert handovers_in(stored_records()) == [Handover(7, T0_MS, 2)]


def test_strict_commands_are_decided_as_they_were() -> None:
    state, found = CounterState(), []
    for offset, text in enumerate(document("strict-commands.json")):
        decided = state.decide(read_command(text.encode()), offset, T0_MS)
        assert decided is not None
        found.append(decided.decision)
    assert found == [
        Decision(True, 10),
        Decision(False, 8),
        Decision(True, 1),
        Decision(True, 10),
    ]
