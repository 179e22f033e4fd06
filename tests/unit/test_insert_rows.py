"""Rows of sketches and registers that were set aside: read back, put back table by table."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from msgspec.structs import replace

from pipeline.adjustments.placed import Placed
from pipeline.letters import insert as insert_module
from pipeline.letters.heaviest import NamesHour, hour_of
from pipeline.letters.insert import CUT, UNREADABLE, Inserted, insert
from pipeline.letters.kept_days import is_meant
from pipeline.letters.letter import LetterKey, StoredLetter
from pipeline.letters.lineage import Lineage
from pipeline.letters.rows import (
    ADJUSTMENTS,
    BUCKETS,
    CELLS,
    HEAVIEST,
    REGISTERS,
    RowId,
    SetAsideAdjustment,
    SetAsideBucket,
    SetAsideHeaviest,
    SetAsideRegisters,
    SetAsideRow,
    SumKey,
    read_row,
)
from pipeline.letters.summed import raised_sums
from pipeline.letters.sums import GRAINS, Sums
from pipeline.rollup.retention import FamilySet
from pipeline.rules import CountingRules, FamilyRules
from pipeline.shard import Fetched, Shard
from pipeline.writes.summary_rows import SummaryRows, summary_rows
from schemas.adjustments import Adjustment
from tests.kit.clocks import ManualClock

SLOT_S = 1_775_001_720  # 2026-04-01 00:02
SLOT = datetime(2026, 4, 1, 0, 2, tzinfo=UTC)
WINDOW = datetime(2026, 3, 31, 23, 59, tzinfo=UTC)
RULES = CountingRules(
    1,
    families={"views": FamilyRules(sketched=True, distinct_grains=("1m", "1h", "1d"))},
)


@pytest.fixture(scope="module")
def refused() -> dict[str, list[tuple[dict[str, Any], StoredLetter]]]:
    """Every row beside the cells of a shard that counted something, by table, and its letter."""
    shard = Shard(4, rules=RULES)
    names = ["views:é", "views:b", "views:é"]
    columns = pa.table(
        {
            "counter": pa.array(names),
            "region": pa.array(["eu", "", "eu"]),
            "at": pa.array([int(WINDOW.timestamp()) * 1000] * 3, pa.int64()),
            "delta": pa.array([5, 2, -1], pa.int64()),
            "id": pa.nulls(3, pa.string()),
            "offset": pa.array([7, 8, 9], pa.int64()),
            "row": pa.array([0, 0, 0], pa.int32()),
            "member": pa.array(["ada", "bob", None]),
        }
    )
    times = np.full(3, SLOT_S * 1000 + 17, np.int64)
    assert shard.absorb_columns(columns, Fetched(np.array([7, 8, 9]), times, 10)) == []
    found = summary_rows([shard.snapshot(checkpoint=False)], 2, "main")
    return {part.table: list(_letters(part)) for part in found}


def _letters(part: SummaryRows) -> Iterator[tuple[dict[str, Any], StoredLetter]]:
    letters = part.letters(dict.fromkeys(range(part.rows.num_rows), "because"))
    for row, one in zip(part.rows.to_pylist(), letters, strict=True):
        key = LetterKey(one.partition, one.offset, one.row, one.timestamp_ms)
        yield row, StoredLetter(key, one.value, one.bytes_total, None)


def test_rows_of_every_table_are_read_back_as_they_were_set_aside(
    refused: dict[str, list[tuple[dict[str, Any], StoredLetter]]],
) -> None:
    assert set(refused) == {BUCKETS, HEAVIEST, *REGISTERS}
    for table, rows in refused.items():
        for row, letter in rows:
            read = read_row(letter.value)
            assert read is not None, table
            assert read.table == table
            for name, value in row.items():
                wanted = tuple(value) if isinstance(value, list) else value
                assert getattr(read, name) == wanted, (table, name)
            assert letter.key.is_set_aside
            # Whoever is given the row, as one of earlier days, is given its letter, too.
            assert letter.key.log_ms == read.log_ms, table


@pytest.mark.parametrize(
    ("table", "broken"),
    [
        (BUCKETS, {"bucket": 2**32}),
        (BUCKETS, {"p": None}),
        (BUCKETS, {"table": CELLS}),
        (HEAVIEST, {"counts": []}),
        (HEAVIEST, {"counters": [None]}),
        ("tally.distinct_1h", {"registers": [[2**16, 1]]}),
        ("tally.distinct_1h", {"registers": [[1, 2, 3]]}),
        ("tally.distinct_1h", {"slot_day": "soon"}),
        ("tally.distinct_1h", {"table": "tally.distinct_life"}),
    ],
)
def test_what_is_no_row_of_its_table_is_told(
    refused: dict[str, list[tuple[dict[str, Any], StoredLetter]]],
    table: str,
    broken: dict[str, Any],
) -> None:
    _, letter = refused[table][0]
    assert read_row(json.dumps({**json.loads(letter.value), **broken}).encode()) is None


def bucket(p: int, n: int = 0, number: int = 3) -> SetAsideBucket:
    return SetAsideBucket(
        build=2,
        region="eu",
        window=WINDOW,
        slot=SLOT,
        replica="main",
        shard=4,
        p=p,
        n=n,
        family="views",
        width=100,
        bucket=number,
    )


def test_buckets_are_added_up_one_by_one_by_what_the_table_does_not_have_of_them_yet() -> None:
    def key(number: int, window_s: int) -> SumKey:
        return SumKey(("views", 100, number), "eu", "main", 4, window_s, date(2026, 4, 1))

    hour_s, day_s, minute_s = 1_774_998_000, 1_774_915_200, 1_775_001_540
    added: dict[Any, Any] = {grain: {} for grain in GRAINS}
    added["1h"] = {key(3, hour_s): (10, 1)}
    known = {RowId(("views", 100, 3), "eu", "main", 4, minute_s, SLOT_S): (4, 0)}
    before = Sums({grain: {} for grain in GRAINS}, added, known)
    assert raised_sums([bucket(9, 2), bucket(6), bucket(5, number=700)], before) == {
        "1h": {key(3, hour_s): (15, 3), key(700, hour_s): (5, 0)},
        "1d": {key(3, day_s): (5, 2), key(700, day_s): (5, 0)},
        "life": {key(3, 0): (5, 2), key(700, 0): (5, 0)},
    }


def test_the_heaviest_are_rolled_up_by_the_hour_of_their_slot() -> None:
    row = SetAsideHeaviest(
        build=2,
        slot=SLOT,
        replica="main",
        shard=4,
        family="views",
        region="*",
        through=9,
        counters=("views:a",),
        counts=(5,),
        lost=0,
    )
    assert hour_of(row) == NamesHour("views", "*", 1_775_001_600)


@pytest.mark.parametrize("families", [FamilySet(("a", "it's")), FamilySet(("a", "b"), True)])
def test_families_that_were_deleted_are_known_by_the_condition_that_was_recorded(
    families: FamilySet,
) -> None:
    for family in ("a", "b", "ab", "", "it's", "only"):
        assert is_meant(families.text(), family) == ((family in families.names) != families.all_but)


def letter(offset: int, row: SetAsideRow | bytes, *, cut: bool = False) -> StoredLetter:
    if isinstance(row, bytes):
        value = row
    else:
        fields = {name: getattr(row, name) for name in row.__struct_fields__}
        plain = {
            name: field.strftime("%Y-%m-%d %H:%M:%S") if isinstance(field, datetime) else field
            for name, field in fields.items()
        }
        value = json.dumps(plain, default=str).encode()
    return StoredLetter(LetterKey(4, offset, -1, 0), value, len(value) + cut, None)


def registers(counter: str = "views:a", build: int = 2) -> SetAsideRegisters:
    return SetAsideRegisters(
        table="tally.distinct_1h",
        build=build,
        counter=counter,
        region="",
        window=WINDOW,
        precision=12,
        slot_day=date(2026, 4, 1),
        registers=((1, 2),),
    )


@dataclass
class World:
    """A topic, tables and a memory, all in one place; tables leave out what they are told to."""

    topic: list[StoredLetter]
    left: dict[SetAsideRow, str] = field(default_factory=dict)
    fails: str | None = None
    put: list[list[SetAsideRow]] = field(default_factory=list)
    remembered: list[int] = field(default_factory=list)

    def find(self, wanted: Iterable[LetterKey]) -> Iterator[StoredLetter]:
        keys = set(wanted)
        yield from (letter for letter in self.topic if letter.key in keys)

    def put_back(self, rows: Sequence[SetAsideRow]) -> Mapping[int, str]:
        if rows[0].table == self.fails:
            raise RuntimeError("away")
        self.put.append(list(rows))
        return {at: self.left[row] for at, row in enumerate(rows) if row in self.left}

    def record_put_back(self, keys: Sequence[LetterKey], build: int, put_back_at_ms: int) -> None:
        assert (build, put_back_at_ms) == (2, 1_000_000)
        self.remembered += [key.offset for key in keys]

    def insert(self, *more: LetterKey, older: Lineage | None = None) -> Inserted:
        return insert(
            [*(one.key for one in self.topic), *more],
            2,
            older=older,
            letters=self,
            tables=dict.fromkeys((CELLS, BUCKETS, HEAVIEST, ADJUSTMENTS, *REGISTERS), self),
            memory=self,
            clock=ManualClock(),
        )


def test_mixed_letters_are_put_back_by_table_and_those_left_out_are_told() -> None:
    rows: list[SetAsideRow] = [bucket(1), registers(), bucket(2), registers("views:b")]
    world = World([letter(at, row) for at, row in enumerate(rows)], {rows[2]: "no", rows[1]: "no"})
    assert world.insert() == Inserted(2, {"no": 2})  # type: ignore[arg-type]  # equal to a Counter
    assert world.put == [[rows[0], rows[2]], [rows[1], rows[3]]]
    assert world.remembered == [0, 3]


def test_what_holds_no_whole_row_of_this_build_is_told() -> None:
    world = World(
        [
            letter(0, registers(), cut=True),
            letter(1, registers(build=3)),
            letter(2, b"nonsense"),
            letter(3, registers()),
        ]
    )
    done = world.insert(LetterKey(4, 99, -1, 0))
    assert (done.letters, done.skipped) == (1, {CUT: 1, UNREADABLE: 3})
    assert done.left == 4


def test_what_was_put_back_before_a_server_goes_away_is_remembered() -> None:
    world = World([letter(0, bucket(1)), letter(1, registers())], fails="tally.distinct_1h")
    with pytest.raises(RuntimeError, match="away"):
        world.insert()
    assert world.remembered == [0]


def test_rows_are_put_back_some_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(insert_module, "CHUNK_ROWS", 2)
    letters = [letter(at, bucket(at)) for at in range(5)]
    world = World(letters)
    assert world.insert() == Inserted(5)
    assert [len(part) for part in world.put] == [2, 2, 1]
    monkeypatch.setattr(insert_module, "CHUNK_BYTES", letters[0].bytes_total)
    world = World(letters)
    world.insert()
    assert [len(part) for part in world.put] == [1, 1, 1, 1, 1]


def test_rows_of_the_build_before_are_written_as_this_ones_where_it_has_their_day() -> None:
    older = replace(registers(build=1), slot_day=date(2026, 3, 31))
    world = World([letter(0, older), letter(1, registers(build=1))])
    done = world.insert(older={1: SLOT_S * 1000})
    assert done == Inserted(2)
    assert world.put == [[replace(older, build=2), registers(build=2)]]
    world = World([letter(0, older), letter(1, registers(build=1)), letter(2, bucket(3))])
    done = world.insert(older={1: int(datetime(2026, 4, 1, tzinfo=UTC).timestamp() * 1000)})
    assert (done.letters, done.skipped) == (2, {UNREADABLE: 1})
    assert world.put == [[replace(older, build=2)], [bucket(3)]]


def test_an_adjustment_is_read_back_to_the_millisecond() -> None:
    made = Adjustment(
        counter="likes:a", by=-3, id="one", who="ann", why="fraud", at=1_775_001_720_123, before=7
    )
    shard = Shard(4, log_ms=1_775_001_799_999)
    shard.adjust([Placed(9, 1_775_001_725_456, made)])
    [part] = summary_rows([shard.snapshot(checkpoint=False)], 2, "main")
    [(row, stored)] = _letters(part)
    read = read_row(stored.value)
    assert isinstance(read, SetAsideAdjustment)
    assert {name: getattr(read, name) for name in row} == row
    assert read.log_ms == stored.key.log_ms == 1_775_001_725_456
    assert World([stored]).insert() == Inserted(1)
