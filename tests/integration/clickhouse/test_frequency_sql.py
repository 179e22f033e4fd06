"""Where counters are in sketches of counts: SQL says what Python says, bucket by bucket."""

import json
import random

import pytest

from sketches.frequency import ROWS, Frequency, buckets_of
from sketches.sql_frequency import FUNCTIONS
from tests.integration.clickhouse.process import ClickHouse

ODD = ["", "a", ":", "views:home", "näme:日本", "😀" * 64, "nul\x00inside", "x" * 256, "'\\\t\n{}"]
PLANES = [(32, 127), (0xA0, 0x2000), (0x3000, 0xD7FF), (0x10000, 0x10FFFF)]


@pytest.fixture
def counters(door: ClickHouse, database: str) -> list[str]:
    """Odd texts and many of random characters of all planes, in a table; and the functions."""
    seed = 11
    print(f"seed {seed}")
    choose = random.Random(seed)
    names = ODD + [
        "".join(chr(choose.randrange(*choose.choice(PLANES))) for _ in range(choose.randrange(70)))
        for _ in range(2_000)
    ]
    for statement in (*FUNCTIONS, *FUNCTIONS):
        door.rows(statement)
    door.rows(
        "CREATE TABLE counters (id UInt32, counter String) ENGINE = MergeTree ORDER BY id",
        database=database,
    )
    rows = "\n".join(json.dumps({"id": at, "counter": name}) for at, name in enumerate(names))
    insert = "INSERT INTO counters FORMAT JSONEachRow"
    assert door.ask(rows, query=insert, database=database).status == 200
    return names


@pytest.mark.parametrize("width", [2, 1360, 5437, 1 << 24])
def test_buckets_in_sql_are_those_in_python(
    door: ClickHouse, database: str, counters: list[str], width: int
) -> None:
    text = door.rows(
        f"SELECT tallyBuckets(counter, {width}, {ROWS}) FROM counters ORDER BY id "
        "FORMAT JSONCompactEachRow",
        database=database,
    )
    assert [json.loads(line)[0] for line in text.splitlines()] == buckets_of(
        counters, width
    ).tolist()


def test_a_sketch_counts_in_these_buckets_and_no_others() -> None:
    for number, name in enumerate(ODD, start=1):
        sketch = Frequency.for_error(0.002)
        assert sketch.rows == ROWS
        sketch.add_many([name], [number])
        added, _ = sketch.counters()
        hit = {at: int(value) for at, value in enumerate(added.ravel()) if value}
        assert hit == dict.fromkeys(buckets_of([name], sketch.width)[0].tolist(), number)
