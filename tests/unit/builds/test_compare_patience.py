"""How long a comparison waits for slots that were open when it began."""

from pipeline.builds.comparing.patience import STALLED_S, Waiting, slot_ends_ms
from pipeline.builds.comparing.reach import Position

MINUTE_MS = 60_000
NOON_MS = 1_700_000_040_000 - 1_700_000_040_000 % MINUTE_MS
MAIN_0, MAIN_1 = ("main", 0), ("main", 1)


def at(*logs_ms: int) -> dict[tuple[str, int], Position]:
    """Positions of shards 0, 1 and so on by their log times."""
    return {("main", shard): Position(9, log_ms) for shard, log_ms in enumerate(logs_ms)}


def test_slots_end_a_minute_after_the_further_build_began_its_own() -> None:
    old, new = at(NOON_MS + 1, NOON_MS), at(NOON_MS + MINUTE_MS)
    assert slot_ends_ms(old, new) == {MAIN_0: NOON_MS + 2 * MINUTE_MS}
    assert slot_ends_ms(new, old) == {MAIN_0: NOON_MS + 2 * MINUTE_MS}


def test_it_is_over_when_both_builds_are_past_every_slot() -> None:
    end_ms = NOON_MS + MINUTE_MS
    waiting = Waiting({MAIN_0: end_ms, MAIN_1: end_ms})
    assert not waiting.is_over(0, at(end_ms, NOON_MS), at(end_ms, NOON_MS))
    assert not waiting.is_over(1, at(end_ms, end_ms), at(end_ms, end_ms - 1))
    assert waiting.is_over(2, at(end_ms, end_ms), at(end_ms, end_ms))


def test_a_shard_that_stalls_in_one_build_is_not_waited_for() -> None:
    end_ms = NOON_MS + MINUTE_MS
    waiting = Waiting({MAIN_0: end_ms, MAIN_1: end_ms})
    for second in range(int(STALLED_S)):
        moving = NOON_MS + second
        assert not waiting.is_over(second, at(moving, NOON_MS), at(moving, moving))
    assert not waiting.is_over(STALLED_S, at(NOON_MS + 20, NOON_MS), at(NOON_MS + 20, end_ms))
    assert waiting.is_over(STALLED_S + 1, at(end_ms, NOON_MS), at(end_ms, end_ms))


def test_a_shard_that_a_build_lost_stalls() -> None:
    waiting = Waiting({MAIN_0: NOON_MS})
    assert not waiting.is_over(0, at(NOON_MS), {})
    assert waiting.is_over(STALLED_S, at(NOON_MS), {})
