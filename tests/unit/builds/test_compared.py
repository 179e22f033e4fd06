"""A comparison as people and programs see it."""

from pipeline.builds.comparing.compared import (
    Comparison,
    Example,
    Scope,
    ShardCompared,
    TableCompared,
    lines,
)

CATS = {"counter": "hashtag:#cats", "region": "eu", "window": "2026-11-16 10:04", "shard": 3}
FIRST = ShardCompared("main", 0, 120, 118, through=118)
SECOND = ShardCompared("main", 1, 90, 70, through=64, until_ms=1_700_000_040_000)


def comparison(*tables: TableCompared, shards: tuple[ShardCompared, ...] = ()) -> Comparison:
    return Comparison(1, 2, Scope(), shards or (FIRST, SECOND), tables)


def test_builds_that_agree_say_through_where() -> None:
    found = comparison(TableCompared("cells_1m", 1_204_331), TableCompared("heavy_1m"))
    assert list(lines(found)) == [
        "cells_1m             1,204,331 compared, none differ",
        "builds 1 and 2 agree through offset 118 of shard 0, 64 of shard 1",
    ]
    assert found.complete
    assert not found.differs


def test_a_row_that_differs_is_told_by_the_values_that_do() -> None:
    altered = Example(CATS, {"p": 17, "n": 0}, {"p": 16, "n": 0})
    deleted = Example(CATS, {"p": 17, "n": 0}, None)
    found = comparison(TableCompared("cells_1m", 1_204_331, 2, [altered, deleted]))
    key = "hashtag:#cats eu 2026-11-16 10:04 shard 3"
    assert list(lines(found)) == [
        "cells_1m             1,204,331 compared, 2 differ",
        f"  {key}: p 17 in build 1, p 16 in build 2",
        f"  {key}: p 17, n 0 in build 1, none in build 2",
        "builds 1 and 2 differ",
    ]
    assert found.differs


def test_many_shards_are_not_named_one_by_one() -> None:
    shards = tuple(ShardCompared("main", n, n, n, through=1000 + n) for n in range(64))
    *_, last = lines(comparison(shards=shards))
    assert last == "builds 1 and 2 agree through offsets 1,000 to 1,063 of 64 shards"


def test_a_shard_of_which_no_offset_is_known_is_told_by_log_time() -> None:
    quiet = ShardCompared("main", 2, 5, 6, until_ms=1_700_000_040_000)
    *_, last = lines(comparison(shards=(FIRST, quiet)))
    assert last == "builds 1 and 2 agree in all slots up to 2023-11-14T22:14:00.000Z of every shard"


def test_a_shard_that_was_not_compared_makes_it_incomplete_not_different() -> None:
    missing = ShardCompared("main", 1, 90, None, why="build 2 has not counted it")
    found = comparison(shards=(FIRST, missing))
    assert list(lines(found)) == [
        "shard 1 of main was not compared: build 2 has not counted it",
        "builds 1 and 2 agree through offset 118 of shard 0, of the shards that both have",
    ]
    assert not found.complete
    assert not found.differs
    *_, last = lines(comparison(shards=(missing,)))
    assert last == "builds 1 and 2 have no shard that could be compared"
    assert not Comparison(1, 2, Scope(), (), ()).complete


def test_the_document_has_all_of_it() -> None:
    example = Example({"counter": "a:b"}, {"p": 2}, None)
    scope = Scope(family="a", since_ms=1_700_000_040_000)
    table = TableCompared("cells_1m", 10, 1, [example])
    assert Comparison(1, 2, scope, (SECOND,), (table,)).document() == {
        "old": 1,
        "new": 2,
        "scope": {
            "family": "a",
            "counter": None,
            "since": "2023-11-14T22:14:00.000Z",
            "until": None,
        },
        "differs": True,
        "complete": True,
        "shards": [
            {
                "replica": "main",
                "shard": 1,
                "old_through": 90,
                "new_through": 70,
                "through": 64,
                "until": "2023-11-14T22:14:00.000Z",
                "why": "",
                "compared": True,
            }
        ],
        "tables": [
            {
                "table": "cells_1m",
                "compared": 10,
                "differ": 1,
                "examples": [{"key": {"counter": "a:b"}, "old": {"p": 2}, "new": None}],
            }
        ],
    }
    assert scope.names == {"family", "window"}
