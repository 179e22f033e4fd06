"""Distinct members in SQL: the same estimator as in Python, to the last digit."""

import json
import math

import numpy as np
import pytest

from sketches.distinct import Distinct
from sketches.hashing import hashes
from sketches.registers import rank_max
from sketches.sql import FUNCTIONS
from tests.integration.clickhouse.process import ClickHouse

TABLE = (
    "CREATE TABLE sketches (name String, precision UInt8, "
    "registers SimpleAggregateFunction(maxMap, Map(UInt16, UInt8))) "
    "ENGINE = AggregatingMergeTree ORDER BY (precision, name)"
)
ANSWER = (
    "SELECT tallyDistinct(all, precision) AS uniques, tallyDistinctLow(uniques, all, precision), "
    "tallyDistinctHigh(uniques, all, precision) FROM (SELECT precision, maxMap(registers) AS all "
    "FROM sketches WHERE name IN {names:Array(String)} GROUP BY precision) "
    "FORMAT JSONCompactEachRow"
)


@pytest.fixture
def sketches(door: ClickHouse, database: str) -> str:
    """A database with the table of registers and the functions, made twice as at every start."""
    for statement in (*FUNCTIONS, *FUNCTIONS):
        door.rows(statement)
    door.rows(TABLE, database=database)
    return database


def write(door: ClickHouse, database: str, name: str, sketch: Distinct) -> None:
    indexes, ranks = sketch.registers()
    registers = dict(zip(map(str, indexes.tolist()), ranks.tolist(), strict=True))
    row = {"name": name, "precision": sketch.precision, "registers": registers}
    insert = "INSERT INTO sketches FORMAT JSONEachRow"
    reply = door.ask(json.dumps(row), query=insert, database=database)
    assert reply.status == 200, reply.text


def answer(door: ClickHouse, database: str, *names: str) -> list[float]:
    text = door.rows(
        ANSWER,
        database=database,
        param_names=str(list(names)),
        output_format_json_quote_denormals=1,
    )
    return [float(value) for value in json.loads(text)]


def in_python(sketch: Distinct) -> list[float]:
    found = sketch.estimate()
    return [found.value, found.low, found.high]


def extremes(precision: int) -> dict[str, Distinct]:
    registers, most = 1 << precision, rank_max(precision)
    every = range(registers)
    return {
        "none": Distinct(precision),
        "one": Distinct.from_registers(precision, [registers - 1], [1]),
        "one, full": Distinct.from_registers(precision, [0], [most]),
        "all, lowest": Distinct.from_registers(precision, every, [1] * registers),
        "all but one": Distinct.from_registers(precision, every[1:], [2] * (registers - 1)),
        "all, nearly full": Distinct.from_registers(precision, every, [most - 1] * registers),
        "all but one full": Distinct.from_registers(
            precision, every, [1] + [most] * (registers - 1)
        ),
        "full": Distinct.from_registers(precision, every, [most] * registers),
    }


@pytest.mark.parametrize("precision", [4, 12, 16])
def test_extreme_registers_are_estimated_alike(
    door: ClickHouse, sketches: str, precision: int
) -> None:
    for name, sketch in extremes(precision).items():
        write(door, sketches, name, sketch)
        assert answer(door, sketches, name) == in_python(sketch), name
    assert answer(door, sketches, "full")[0] == math.inf


def test_random_registers_are_estimated_alike_to_the_last_digit(
    door: ClickHouse, sketches: str
) -> None:
    chance = np.random.default_rng(20)
    for number in range(40):
        precision = int(chance.integers(4, 15))
        hit = int(chance.integers(1, (1 << precision) + 1))
        indexes = chance.permutation(1 << precision)[:hit]
        most = int(chance.integers(1, rank_max(precision) + 1))
        ranks = np.minimum(chance.geometric(chance.uniform(0.05, 0.9), hit), most)
        sketch = Distinct.from_registers(precision, indexes, ranks)
        write(door, sketches, f"random-{number}", sketch)
        assert answer(door, sketches, f"random-{number}") == in_python(sketch), (number, precision)


def test_a_union_in_sql_is_the_union_in_python(door: ClickHouse, sketches: str) -> None:
    whole = Distinct(12)
    for part in range(4):
        sketch = Distinct(12)
        members = [f"user-{number}" for number in range(part * 700, part * 700 + 1500)]
        sketch.add_many(members[:300])
        write(door, sketches, f"part-{part}", sketch)
        before = sketch.copy()
        sketch.add_many(members)
        changed = Distinct.from_registers(12, *sketch.changed_since(before))
        write(door, sketches, f"part-{part}", changed)  # only what changed, and a retry of it
        write(door, sketches, f"part-{part}", changed)
        whole.merge(sketch)
        assert answer(door, sketches, f"part-{part}") == in_python(sketch)
    assert answer(door, sketches, *(f"part-{part}" for part in range(4))) == in_python(whole)
    door.rows("OPTIMIZE TABLE sketches FINAL", database=sketches)
    assert answer(door, sketches, *(f"part-{part}" for part in range(4))) == in_python(whole)


def test_sql_makes_the_same_registers_of_raw_members(door: ClickHouse) -> None:
    members = ["", "a", "é\0x", "🐈" * 64, *(f"user-{number}" for number in range(3000))]
    text = door.rows(
        "SELECT maxMap(map(toUInt16(bitShiftRight(h, 52)), toUInt8(least(53, 1 + toUInt8(52 - "
        "length(trimLeft(bin(bitAnd(h, 4503599627370495)), '0'))))))) "
        "FROM (SELECT cityHash64(arrayJoin(JSONExtract({members:String}, 'Array(String)'))) AS h) "
        "FORMAT JSONCompactEachRow",
        param_members=json.dumps(members),
    )
    sketch = Distinct(12)
    sketch.add_many(members)
    indexes, ranks = sketch.registers()
    found = {int(index): rank for index, rank in json.loads(text)[0].items()}
    assert found == dict(zip(indexes.tolist(), ranks.tolist(), strict=True))


def test_the_hash_is_the_one_of_clickhouse(door: ClickHouse) -> None:
    lengths = [*range(70), 127, 128, 129, 256]
    texts = [("ü7🐈x" * 256)[:length] for length in lengths]
    query = "SELECT cityHash64(arrayJoin(JSONExtract({t:String}, 'Array(String)')))"
    found = door.rows(query, param_t=json.dumps(texts))
    assert [int(line) for line in found.split()] == hashes(texts).tolist()
