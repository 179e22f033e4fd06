"""Two builds in a real ClickHouse: what is spoilt in one of them is found, and nothing else."""

import json

from pipeline.builds.comparing.compare import lines
from tests.integration.builds import compared_builds
from tests.integration.builds.compared_builds import FRIDAY, MONDAY, Builds, at, deleted, inserted

old, builds = compared_builds.old, compared_builds.builds


def test_rows_that_were_deleted_are_found_in_every_table(builds: Builds) -> None:
    builds.run(
        deleted("cells_1m", "counter = 'likes:b'"),
        deleted("cells_1h", "counter = 'likes:a' AND region = 'eu'"),
        # Of a day that is not over: what of it is rolled up already must stay.
        deleted("cells_1h", "counter = 'likes:c'"),
        deleted("cells_1d", "counter = 'short:x'"),
        deleted("distinct_1m", "true"),
        deleted("distinct_1h", "counter = 'likes:b'"),
        deleted("distinct_1d", "true"),
        deleted("adjustments", "id = 'two'"),
        deleted("frequency_1m", "bucket = 11"),
        deleted("frequency_1h", "slot_day = '2026-03-16' AND bucket = 3"),
        deleted("frequency_1d", "slot_day = '2026-03-16' AND bucket = 3"),
        deleted("heavy_1m", "through = 11"),
        deleted("dead_letters", "offset = 5"),
    )

    found = builds.compare()

    assert {table.table: table.differ for table in found.tables if table.differ} == {
        "cells_1m": 1,
        "cells_1h": 2,
        # Monday's; the slot in which Friday's was counted is open, so it will be rolled up again.
        "cells_1d": 1,
        "distinct_1m": 1,
        "distinct_1h": 1,
        "distinct_1d": 1,
        "adjustments": 1,
        "frequency_1m": 1,
        "frequency_1h": 1,
        "frequency_1d": 1,
        "heavy_1m": 1,
        "dead_letters": 1,
    }
    shown = "\n".join(lines(found))
    new = builds.new
    assert (
        "  likes:b eu 2026-03-19 23:59 slot 2026-03-19 23:59 replica main shard 1: "
        f"p 2, n 2, duplicates 0, through 9 in build 1, none in build {new}"
    ) in shown
    # Its minutes have 5, and it should be among the hours.
    assert (
        "  likes:c 2026-03-20 09:00 slot_day 2026-03-20 replica main shard 0: "
        f"none in build 1, p 0, n 0, duplicates 0, above 0, below 5 in build {new}"
    ) in shown
    assert f"builds 1 and {new} differ" in shown
    assert json.loads(json.dumps(found.document()))["differs"]


def test_rows_that_were_raised_are_found_in_every_table(builds: Builds) -> None:
    builds.run(
        # Doubled, as it would be by adding instead of comparing; hours and days follow minutes.
        inserted("cells_1m", "p * 2 AS p", "counter = 'likes:b'"),
        inserted("cells_1m", "n + 2 AS n", "window = '2026-03-16 10:00:00' AND region = 'eu'"),
        inserted("cells_1m", "through + 1 AS through", "window = '2026-03-16 10:01:00'"),
        inserted("cells_1m", "duplicates + 1 AS duplicates", "slot = '2026-03-19 09:00:00'"),
        inserted("cells_1h", "p * 2 AS p", "counter = 'short:x' AND slot_day = '2026-03-16'"),
        inserted("cells_1h", "p + 45 AS p", "counter = 'likes:c'"),
        inserted("cells_1d", "n + 1 AS n", "counter = 'short:y'"),
        inserted("cells_1d", "p + 1 AS p", "slot_day = '2025-11-03'"),
        inserted("cells_life", "n + 1 AS n", "true"),
        inserted("distinct_1m", "map(1, 3) AS registers", "true"),
        inserted("distinct_1h", "map(8, 1) AS registers", "counter = 'likes:b'"),
        inserted("distinct_1d", "map(5, 9) AS registers", "true"),
        inserted("adjustments", "6 AS by", "id = 'two'"),
        inserted("frequency_1m", "p * 2 AS p", "bucket = 11"),
        inserted("frequency_1h", "n + 1 AS n", "slot_day = '2026-03-16' AND bucket = 3"),
        inserted("heavy_1m", "['views:z'] AS counters, [1] AS counts", "through = 11"),
        inserted("dead_letters", "'another' AS reason", "offset = 5"),
    )

    found = builds.compare()

    assert {table.table: table.differ for table in found.tables if table.differ} == {
        "cells_1m": 4,
        # likes:b, likes:a by n, likes:a by duplicates, short:x.
        "merged_1h": 4,
        # short:x, and likes:c that is above what Friday's minutes add up to.
        "cells_1h": 2,
        # The same as in hours, and short:y in January.
        "merged_1d": 5,
        # short:y again, and November, of which there is nothing else.
        "cells_1d": 2,
        "merged_life": 1,
        "cells_life": 1,
        "distinct_1m": 1,
        "distinct_1h": 1,
        "distinct_1d": 1,
        "adjustments": 1,
        "frequency_1m": 1,
        # Both buckets of Monday.
        "merged_frequency_1h": 2,
        "frequency_1h": 1,
        "merged_frequency_1d": 2,
        "heavy_1m": 1,
        "dead_letters": 1,
    }
    shown = "\n".join(lines(found))
    for text in (
        f"shard 1: p 2 in build 1, p 4 in build {builds.new}",
        f"shard 0: through 12 in build 1, through 13 in build {builds.new}",
        "above 45, below 0 in build",
        f"reason no counter in build 1, reason another | no counter in build {builds.new}",
        f"by 5 in build 1, by 5 | 6 in build {builds.new}",
    ):
        assert text in shown


def test_values_that_were_lowered_are_found(builds: Builds) -> None:
    change = "ALTER TABLE tally.{} UPDATE {} WHERE build = NEW AND {}"
    builds.run(
        change.format("cells_1m", "p = 4", "window = '2026-03-16 10:00:00' AND region = 'eu'"),
        change.format("cells_1m", "n = 1", "counter = 'likes:b'"),
        change.format("cells_1m", "through = 11, duplicates = 1", "window = '2026-03-16 10:01:00'"),
        change.format("cells_1h", "p = 11", "counter = 'likes:a' AND region = 'eu'"),
        change.format("cells_1d", "p = 1", "counter = 'likes:b'"),
        change.format("distinct_1h", "registers = map(1, 2, 5, 1)", "counter = 'likes:a'"),
    )
    assert builds.differ() == {
        "cells_1m": 3,
        # likes:a, of which hour and minute are lower. The day still has it.
        "merged_1h": 1,
        "cells_1h": 1,
        "cells_1d": 1,
        "distinct_1h": 1,
    }


def test_rows_that_nobody_counted_are_found(builds: Builds) -> None:
    cell = (1, 0, 0, 1)
    monday = at(MONDAY, 10)
    builds.write(
        builds.new,
        {
            "cells_1m": [
                ("likes:new", "", monday, monday, 0, *cell),
                ("likes:shard", "", monday, monday, 9, *cell),
                (
                    "likes:later",
                    "",
                    at(FRIDAY.replace(year=2027)),
                    at(FRIDAY.replace(year=2027)),
                    0,
                    *cell,
                ),
            ],
            "dead_letters": [(0, 12, 0, monday, "made up", 1, "")],
        },
    )
    builds.write(
        builds.new, {"cells_1m": [("likes:replica", "", monday, monday, 0, *cell)]}, "else"
    )

    found = builds.compare(examples_max=3)

    by_table = {table.table: table for table in found.tables if table.differ}
    assert {name: table.differ for name, table in by_table.items()} == {
        "cells_1m": 4,
        "merged_1h": 4,
        "merged_1d": 4,
        "dead_letters": 1,
    }
    assert [len(table.examples) for table in by_table.values()] == [3, 3, 3, 1]
    assert [example.old for example in by_table["cells_1m"].examples] == [None] * 3
