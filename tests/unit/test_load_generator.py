"""Synthetic load is what was asked for, valid, and the same for the same seed."""

from collections import Counter
from typing import Any

import numpy as np
import pytest

from pipeline.decode import decode
from pipeline.errors import BadInputError
from pipeline.load.generator import LATE_MS_MAX, LATE_MS_MIN, Generator, Made, bad_values
from pipeline.load.mix import Mix
from pipeline.producer.checks import check_columns
from schemas.records import Records

NOW_MS = 1_760_000_000_000
ROWS = 20_000


def made(seed: int = 1, rows: int = ROWS, **mix: Any) -> Made:
    return Generator(Mix(**mix), seed, "run").make(rows, NOW_MS)


def test_the_same_seed_makes_the_same_load() -> None:
    mix = Mix(late=0.1, bad=0.1, ids=0.1, removals=0.1)
    one, same, other = (Generator(mix, seed, "run") for seed in (3, 3, 4))
    for _ in range(2):
        first, again, another = (each.make(1_000, NOW_MS) for each in (one, same, other))
        assert first.columns.equals(again.columns)
        assert first.bad == again.bad
        assert not first.columns.equals(another.columns)


def test_everything_good_is_taken_by_the_producer_and_bad_ones_are_of_all_kinds() -> None:
    load = made(late=0.2, bad=0.1, ids=0.3, removals=0.2)
    [typed] = check_columns(load.columns, NOW_MS, ROWS)
    assert typed.num_rows + len(load.bad) == ROWS
    assert 0.08 < len(load.bad) / ROWS < 0.12
    assert len(set(load.bad)) == len(bad_values("x:y"))


def test_zipfs_law_holds_and_without_skew_all_are_alike() -> None:
    skewed = Counter(made(counters=100, skew=1.0).columns["counter"].to_pylist())
    harmonic = sum(1 / n for n in range(1, 101))
    for rank in (1, 2, 10):
        expected = ROWS / rank / harmonic
        assert abs(skewed[f"load:counter-{rank}"] - expected) < 6 * expected**0.5
    even = Counter(made(counters=100, skew=0.0).columns["counter"].to_pylist())
    assert len(even) == 100
    assert max(even.values()) < 1.5 * ROWS / 100


def test_shares_are_as_asked() -> None:
    rows = made(late=0.25, ids=0.5, removals=0.1, regions=("eu", ""), members=7).columns.to_pylist()
    assert {row["region"] for row in rows} == {"eu", ""}
    assert {row["member"] for row in rows} == {f"member-{n}" for n in range(1, 8)}
    assert {row["delta"] for row in rows} == {1, -1}
    assert 0.08 < sum(row["delta"] == -1 for row in rows) / ROWS < 0.12
    late = [NOW_MS - row["at"] for row in rows if row["at"] != NOW_MS]
    assert 0.22 < len(late) / ROWS < 0.28
    assert min(late) >= LATE_MS_MIN
    assert max(late) <= LATE_MS_MAX
    ids = [row["id"] for row in rows if row["id"]]
    assert 0.45 < len(ids) / ROWS < 0.55
    assert len(set(ids)) == len(ids)


def test_ids_are_never_made_twice() -> None:
    generator = Generator(Mix(ids=1.0), 1, "run")
    ids = [row for _ in range(3) for row in generator.make(100, NOW_MS).columns["id"].to_pylist()]
    assert len(set(ids)) == 300
    other = Generator(Mix(ids=1.0), 1, "other").make(100, NOW_MS).columns["id"].to_pylist()
    assert not set(ids) & set(other)


def test_no_members_and_no_ids_leave_their_columns_out() -> None:
    assert set(made(members=0).columns.column_names) == {"counter", "delta", "at", "region"}


@pytest.mark.parametrize("bad", [0.0, 1.0])
def test_all_or_none_may_be_bad(bad: float) -> None:
    load = made(rows=50, bad=bad)
    assert (load.columns.num_rows, len(load.bad)) == ((50, 0), (0, 50))[bool(bad)]


def test_what_is_bad_is_refused_by_the_decoder_but_for_what_is_too_late() -> None:
    values = bad_values("a:b")
    count = len(values)
    offsets = np.arange(count)
    times = np.full(count, NOW_MS)
    records = Records(0, offsets, times, [None] * count, list(values), [()] * count)
    decoded = decode(records)
    assert decoded.columns["at"].to_pylist() == [0]
    assert len(decoded.refused) == count - 1


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        ({"family": "a:b"}, "has a colon"),
        ({"family": ""}, "counter: has no family"),
        ({"family": "x" * 300}, "counter: longer than 256 bytes"),
        ({"regions": ("*",)}, "region: '\\*' means all"),
        ({"regions": ("eu", "eu")}, "named twice"),
        ({"counters": 0}, "counters: 0 is not from 1"),
        ({"late": 1.5}, "late: 1.5 is not from 0 to 1"),
        ({"skew": float("nan")}, "skew: nan"),
    ],
)
def test_a_mix_that_makes_no_sense_is_refused(wrong: dict[str, Any], reason: str) -> None:
    with pytest.raises(BadInputError, match=reason):
        Mix(**wrong)
