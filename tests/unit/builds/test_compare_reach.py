"""Up to where two builds can be compared."""

from pipeline.builds.comparing.reach import (
    FOREVER_MS,
    Position,
    Reach,
    reach,
    shards_compared,
    unmoved,
)

MINUTE_MS = 60_000
NOON_MS = 1_700_000_040_000 - 1_700_000_040_000 % MINUTE_MS
MAIN_0, MAIN_1 = ("main", 0), ("main", 1)


def test_slots_that_are_over_in_both_builds_are_compared() -> None:
    old = {MAIN_0: Position(90, NOON_MS + 5 * MINUTE_MS + 1)}
    new = {MAIN_0: Position(50, NOON_MS + 2 * MINUTE_MS + 59_999)}
    assert reach(old, new).until_ms == {MAIN_0: NOON_MS + 2 * MINUTE_MS}
    assert reach(new, old).until_ms == {MAIN_0: NOON_MS + 2 * MINUTE_MS}


def test_open_slots_are_compared_where_both_are_equally_far_and_no_cell_is_ahead() -> None:
    position = Position(90, NOON_MS + 1, cells_through=90)
    ahead = Position(90, NOON_MS + 1, cells_through=91)
    assert reach({MAIN_0: position}, {MAIN_0: position}).until_ms == {MAIN_0: FOREVER_MS}
    assert reach({MAIN_0: position}, {MAIN_0: ahead}).until_ms == {MAIN_0: NOON_MS}
    assert reach({MAIN_0: ahead}, {MAIN_0: position}).until_ms == {MAIN_0: NOON_MS}


def test_open_slots_are_left_out_where_a_build_moved_while_rows_were_read() -> None:
    there = Position(90, NOON_MS + 1, cells_through=90)
    flushing = Position(90, NOON_MS + 1, cells_through=95)
    further = Position(95, NOON_MS + 2 * MINUTE_MS, cells_through=95)
    before = ({MAIN_0: there, MAIN_1: there}, {MAIN_0: there, MAIN_1: there})
    reached = reach(*before)
    assert unmoved(reached, before, before) == reached
    for moved in (flushing, further):
        for after in (
            ({MAIN_0: moved, MAIN_1: there}, {MAIN_0: there, MAIN_1: there}),
            ({MAIN_0: there, MAIN_1: there}, {MAIN_0: moved, MAIN_1: there}),
            ({MAIN_0: moved, MAIN_1: there}, {MAIN_0: moved, MAIN_1: there}),
        ):
            found = unmoved(reached, before, after)
            assert found.until_ms == {MAIN_0: NOON_MS, MAIN_1: FOREVER_MS}


def test_a_log_that_is_gone_is_compared_whole_while_the_next_one_moves() -> None:
    again = ("main~1", 0)
    gone, there = Position(500, NOON_MS), Position(9, NOON_MS + 1, cells_through=9)
    before = ({MAIN_0: gone, again: there}, {MAIN_0: gone, again: there})
    after = ({MAIN_0: gone, again: Position(10, NOON_MS + 2)}, before[1])
    found = unmoved(reach(*before), before, after)
    assert found.until_ms == {MAIN_0: FOREVER_MS, again: NOON_MS}


def test_a_shard_that_one_build_lacks_is_not_compared() -> None:
    position = Position(90, NOON_MS, checkpoint_through=80)
    found = reach({MAIN_0: position, MAIN_1: position}, {MAIN_0: position})
    assert found.until_ms == {MAIN_0: FOREVER_MS, MAIN_1: 0}
    assert found.all_until_ms == 0
    assert found.letters_through == {0: 80, 1: -1}
    assert found.flushed_through == {0: 90, 1: -1}


def test_a_log_that_is_gone_is_compared_whole() -> None:
    again = ("main~1", 0)
    old = {MAIN_0: Position(500, NOON_MS), again: Position(9, NOON_MS + 3 * MINUTE_MS, 7)}
    new = {again: Position(5, NOON_MS + 2 * MINUTE_MS, 4)}
    found = reach(old, new)
    assert found.until_ms == {MAIN_0: FOREVER_MS, again: NOON_MS + 2 * MINUTE_MS}
    assert found.letters_through == {0: 4}
    assert found.flushed_through == {0: 5}
    shards = shards_compared((1, 2), old, new, found, {again: 3})
    assert [(shard.through, shard.why) for shard in shards] == [(500, ""), (3, "")]


def test_a_shard_is_rolled_up_as_far_as_in_both_builds_whatever_its_incarnation() -> None:
    pair = ("main~2", 1)
    positions = {pair: Position(1, NOON_MS)}
    found = reach(positions, positions, {MAIN_1: NOON_MS + 5}, {MAIN_1: NOON_MS + 3})
    assert found.rolled_ms == {pair: NOON_MS + 3}
    assert reach(positions, positions, {MAIN_1: NOON_MS}, {}).rolled_ms == {pair: 0}


def test_shards_say_how_far_they_were_compared_and_why_not() -> None:
    old = {MAIN_0: Position(90, NOON_MS), MAIN_1: Position(70, NOON_MS)}
    new = {MAIN_0: Position(80, NOON_MS)}
    found = Reach({MAIN_0: NOON_MS, MAIN_1: 0})
    first, second = shards_compared((1, 2), old, new, found, {MAIN_0: 61})
    assert (first.old_through, first.new_through, first.through) == (90, 80, 61)
    assert (first.until_ms, first.why) == (NOON_MS, "")
    assert (second.through, second.why) == (None, "build 2 has not counted it")
