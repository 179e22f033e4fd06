"""What this version stored in topics is read by every later one, and newer forms are refused.

The bytes were written once and are never made anew: a change that cannot read them breaks what
people have. What is in them is told here by hand (tests/kit/format_fixtures.py wrote them).
"""

import re

import msgspec
import numpy as np
import pytest

from pipeline.absorb import absorb
from pipeline.changelog import FORMAT
from pipeline.errors import BadInputError, OperatorError, ShardRefusedError
from pipeline.fetches import Fetch
from pipeline.letters.letter import LetterKey, read_letter
from pipeline.letters.remembered import ChangelogPlaces
from pipeline.planning.plan import PlanRecords
from pipeline.rules import CountingRules, NewerRulesError, parse_rules
from pipeline.shard import Fetched, Row, Shard
from pipeline.strict import changelog as strict
from pipeline.strict.state import Decision
from schemas.records import Headers, Records
from schemas.strict import check_command
from sketches.distinct import Distinct
from sketches.frequency import Frequency
from sketches.heavy import Heavy
from sketches.morris import Morris
from tests.unit.formats.shards import counts, recovered
from tests.unit.formats.stored import document, pairs, stored

T0_MS = 1_760_000_400_000


def test_a_shard_goes_on_from_the_changelog_of_this_version() -> None:
    found = recovered(pairs("changelog-2.json"))
    assert found.position(9) == 9
    shard = found.resume(9)
    assert (shard.position, shard.log_ms, shard.replica) == (9, T0_MS, "main")
    assert shard.rules.version == 7
    before = {
        ("views:home", "eu", T0_MS): (5, 2, 2, 1),
        ("likes:post-1", "", T0_MS): (1, 0, 4, 1),
        ("seen:page", "", T0_MS): (1, 0, 5, 0),
        ("tag:", "", T0_MS): (3, 0, 6, 0),
        ("views:home", "us", T0_MS - 3_600_000): (4, 0, 7, 0),
    }
    assert counts(shard) == before
    # What it remembers beside its cells is told by what it does with the same again.
    again = [
        Row(9, 0, "views:home", "eu", T0_MS, -2, "order-1", "ada"),
        Row(10, 0, "likes:post-1", "", T0_MS, 1, None, "ada"),
        Row(11, 0, "seen:page", "", T0_MS, 1, None, "bob"),
        Row(12, 0, "likes:post-1", "", T0_MS, 1, None, "eve"),
    ]
    shard.absorb_rows(again, Fetched(np.arange(9, 13), np.full(4, T0_MS), 13))
    after = {
        key: tuple(now - then for now, then in zip(values, before[key], strict=True))
        for key, values in counts(shard).items()
    }
    assert [values[:2] for values in after.values()].count((0, 0)) == len(after) - 1
    assert after["views:home", "eu", T0_MS][3] == 1
    assert after["likes:post-1", "", T0_MS][0] == 1
    [sketches] = shard.snapshot(checkpoint=True).sketch_values
    frequencies = [
        Frequency.from_bytes(one.value) for one in sketches.values if one.value[:3] == b"TSF"
    ]
    assert [one.estimate("tag:#cats").value for one in frequencies] == [3]


def test_a_refused_place_of_this_version_may_be_retried_once() -> None:
    facts = recovered(pairs("changelog-2.json")).resume(9).refused
    assert [(fact.offset, fact.row, fact.timestamp_ms) for fact in facts] == [(8, 0, T0_MS)]


def test_a_changelog_of_format_1_is_refused_by_all_who_read_it() -> None:
    """Bytes of the version that wrote it: its cells are of slots of ten minutes."""
    records = pairs("changelog-1.json")
    kinds = [msgspec.msgpack.decode(key)[:2] for key, _ in records]
    assert kinds == [[1, kind] for kind in ("cell", "cell", "id", "id", "refused", "position")]
    expected = "format 1, this Tally reads 2; run the version that wrote it"
    for key, value in records:
        with pytest.raises(OperatorError, match=f"changelog of partition 3 has {expected}"):
            recovered([(key, value)]).position(5)
        with pytest.raises(OperatorError, match=f"the changelog has {expected}"):
            ChangelogPlaces().add(key, value)


def test_a_changelog_of_a_newer_form_is_refused() -> None:
    newer = FORMAT + 1
    records = [
        (msgspec.msgpack.encode([newer, *msgspec.msgpack.decode(key)[1:]]), value)
        for key, value in pairs("changelog-2.json")
    ]
    expected = f"partition 3 has format {newer}, this Tally reads 2; run the version that wrote"
    with pytest.raises(OperatorError, match=expected):
        recovered(records).position(9)


def test_a_strict_counter_goes_on_from_the_changelog_of_this_version() -> None:
    [(key, value)] = pairs("strict-changelog-1.json")
    assert strict.counter_of(key) == "stock:shoes"
    state = strict.read_state(value)
    assert (state.value, state.through, state.log_ms) == (8, 3, T0_MS + 3)
    for offset, op, amount, expected in (
        (4, "decrement", 3, Decision(True, 7)),
        (5, "decrement", 99, Decision(False, 7)),
    ):
        command = {"id": f"id-{offset - 3}", "counter": "stock:shoes", "op": op, "amount": amount}
        decided = state.decide(check_command(command), offset, T0_MS + offset)
        assert decided is not None
        assert decided.decision == expected, "it was decided before"


def test_a_strict_changelog_of_another_form_is_refused() -> None:
    [(key, value)] = pairs("strict-changelog-1.json")
    newer_key = msgspec.msgpack.encode([2, *msgspec.msgpack.decode(key)[1:]])
    with pytest.raises(OperatorError, match="key of format 2 that this Tally does not know"):
        strict.counter_of(newer_key)
    newer = msgspec.msgpack.encode([2, *msgspec.msgpack.decode(value)[1:]])
    with pytest.raises(OperatorError, match="value of format 2 that this Tally does not know"):
        strict.read_state(newer)


def test_sketches_of_this_version_estimate_what_they_did() -> None:
    made = {name: bytes.fromhex(text) for name, text in document("sketches-1.json").items()}
    distinct = Distinct.from_bytes(made["distinct"])
    assert (distinct.precision, distinct.uniques()[0]) == (12, 1009)
    frequency = Frequency.from_bytes(made["frequency"])
    assert [frequency.estimate(key).value for key in "abc"] == [4, 2, 0]
    heavy = Heavy.from_bytes(made["heavy"])
    assert [(one.key, one.count) for one in heavy.top(2)] == [("a", 4), ("b", 2)]
    morris = Morris.from_bytes(made["morris"])
    assert morris.levels().tolist() == [1, 159, 0, 0]
    assert (frequency.through, heavy.through, morris.through) == (5, 5, 5)


@pytest.mark.parametrize(
    ("name", "kind"),
    [("distinct", Distinct), ("frequency", Frequency), ("heavy", Heavy), ("morris", Morris)],
)
def test_a_sketch_of_another_version_is_refused(
    name: str, kind: type[Distinct | Frequency | Heavy | Morris]
) -> None:
    newer = bytearray(bytes.fromhex(document("sketches-1.json")[name]))
    newer[3] += 1
    expected = f"a {name} sketch of version {newer[3]}, this program reads version {newer[3] - 1}"
    with pytest.raises(BadInputError, match=expected):
        kind.from_bytes(bytes(newer))


def test_rules_of_this_version_hold() -> None:
    rules = parse_rules(stored("rules-1.json"))
    assert (rules.version, rules.id_partitions, sorted(rules.families)) == (
        7,
        8,
        ["likes", "seen", "tag"],
    )
    assert rules.families["seen"].once_per_error == 0.01
    assert rules.families["tag"].sketched
    assert rules.bytes == stored("rules-1.json"), "equal rules have equal bytes"


def test_rules_of_a_newer_form_are_refused_and_not_passed_over() -> None:
    newer = {**document("rules-1.json"), "format": 2}
    expected = re.escape("counting rules of format 2, which a newer Tally applied; this one reads")
    with pytest.raises(NewerRulesError, match=expected):
        parse_rules(msgspec.json.encode(newer))
    assert not issubclass(NewerRulesError, BadInputError), "bad ones become dead letters"


def test_a_worker_that_meets_newer_rules_refuses_the_shard_and_has_counted_nothing() -> None:
    newer = msgspec.json.encode({**document("rules-1.json"), "format": 2})
    rules: Headers = (("tally-kind", b"rules"),)
    size = 2
    records = Records(
        3,
        np.arange(size),
        np.full(size, T0_MS),
        [None] * size,
        [b'{"counter":"likes:a"}', newer],
        [(), rules],
    )
    shard = Shard(3)
    with pytest.raises(ShardRefusedError, match="shard 3: it has counting rules of format 2"):
        absorb(shard, Fetch(0, size, records))
    assert (shard.position, dict(shard.slots)) == (0, {})


def test_a_shard_plan_of_this_version_is_followed_and_strange_records_are_passed_over() -> None:
    records = PlanRecords()
    for key, value in pairs("shard-plan.json"):
        records.take(key, value)
    records.take(b"something:new", b"\x00")
    records.take(b"shards:views:home", b'{"n": 4, "by": "a newer Tally"}')
    assert isinstance(records.rules, CountingRules)
    assert {name: split.n for name, split in records.splits.items()} == {"views:home": 4}
    assert {name: hint.n for name, hint in records.hints.items()} == {"views:sale": 8}
    assert records.over_sharded.counters == {"views:old": 16}


def test_a_dead_letter_of_this_version_is_read_and_a_newer_one_refused() -> None:
    made = document("dead-letter-1.json")
    headers = tuple((name, bytes.fromhex(value)) for name, value in made["headers"])
    letter = read_letter(bytes.fromhex(made["value"]), headers)
    assert letter is not None
    assert letter.key == LetterKey(3, 8, 0, T0_MS)
    assert (letter.value, letter.is_cut) == (b'{"delta": 0}', False)
    with pytest.raises(OperatorError, match="a letter of format 2, which a newer Tally wrote"):
        read_letter(b"{}", (*headers, ("tally-format", b"2")))
