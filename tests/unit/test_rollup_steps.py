"""What a pass of the rollup asks for, and in which order."""

from datetime import date, timedelta
from typing import Any

import pytest

from pipeline.errors import OperatorError
from pipeline.rollup import steps as rollup_steps
from pipeline.rollup.retention import Days, Drop
from pipeline.rollup.rollup import pause_s
from pipeline.rollup.steps import (
    BATCH_CELLS,
    ConfirmFamilies,
    ConfirmFinal,
    ConfirmShards,
    CountOpen,
    Open,
    Operation,
    Progress,
    ReadDays,
    ReadProgress,
    Roll,
    Rolled,
    batches,
    least_log_ms,
    open_slots,
    rollup_pass,
)
from schemas.families import Families

DAY = date(2026, 3, 10)
END_MS = 1_773_187_200_000
FAR_MS = END_MS + 30 * 86_400_000
NO_DAYS = Days(0, {"1m": {}, "1h": {}, "1d": {}})


def play(
    answers: dict[Any, Any], partitions: int = 1, refused: str | None = None
) -> tuple[list[Operation], Rolled]:
    """All operations of one pass, each answered by its type; one family may be refused.

    What is open of sketches is answered by its name, and is nothing unless a test says so.
    """
    steps = rollup_pass(partitions, Families(), 0)
    operations = [next(steps)]
    try:
        while True:
            last = operations[-1]
            if isinstance(last, Roll) and last.first == refused:
                operations.append(steps.throw(OperatorError("no")))
            elif isinstance(last, CountOpen) and last.kind != "cells":
                operations.append(steps.send(answers.get(last.kind, [])))
            else:
                operations.append(steps.send(answers.get(type(last))))
    except StopIteration as stop:
        return operations, stop.value


def test_positions_are_read_first_and_recorded_when_all_is_rolled_up() -> None:
    open_ = Open({0: 660_000}, 660_000)
    operations, rolled = play(
        {
            ReadProgress: Progress(flushed={0: 5_000_000}, rolled={0: 700_000}),
            CountOpen: [(DAY, "likes", 3)],
            ReadDays: NO_DAYS,
        }
    )
    assert operations == [
        ReadProgress(),
        CountOpen(open_),
        CountOpen(open_, "frequency"),
        CountOpen(open_, "heavy"),
        Roll("1h", DAY, "likes", "likes", 0, 1, open_),
        Roll("1d", DAY, "likes", "likes", 0, 1, open_),
        ConfirmShards({0: 5_000_000}),
        ConfirmFamilies(frozenset({"likes"}), frozenset()),
        ConfirmShards({0: 5_000_000}),
        ReadDays(1),
    ]
    assert (rolled.open_cells, rolled.statements) == (3, 2)


def test_a_pass_over_many_days_records_each_when_it_is_done() -> None:
    found = [(DAY, "a", 1), (DAY + timedelta(days=1), "a", 1)]
    progress = Progress({0: FAR_MS, 1: END_MS + 5}, {})
    operations, _ = play({ReadProgress: progress, CountOpen: found}, partitions=3)
    assert [one.rolled for one in operations if isinstance(one, ConfirmShards)] == [
        {0: END_MS, 1: END_MS},
        {0: END_MS + 86_400_000, 1: END_MS + 5},
        {0: FAR_MS, 1: END_MS + 5},
    ]


def test_sketches_are_rolled_up_with_the_cells_of_their_day_before_it_is_recorded() -> None:
    later = DAY + timedelta(days=1)
    operations, rolled = play(
        {
            ReadProgress: Progress({0: FAR_MS}, {0: FAR_MS}),
            CountOpen: [(DAY, "likes", 1)],
            "frequency": [(later, "views", 5), (DAY, "", 7)],
            "heavy": [(DAY, "", 2)],
        },
        partitions=2,
    )
    done = [
        (one.kind, one.grain, one.day) if isinstance(one, Roll) else ConfirmShards
        for one in operations
        if isinstance(one, Roll | ConfirmShards)
    ]
    assert done == [
        *(("cells", grain, DAY) for grain in ("1h", "1d")),
        *(("frequency", grain, DAY) for grain in ("1h", "1d")),
        *(("heavy", grain, DAY) for grain in ("1h", "1d")),
        ConfirmShards,
        *(("frequency", grain, later) for grain in ("1h", "1d")),
        ConfirmShards,
        ConfirmShards,
    ]
    assert (rolled.open_cells, rolled.statements) == (15, 8)


def test_a_day_is_recorded_as_final_before_it_may_ever_be_dropped() -> None:
    progress = Progress(flushed={0: FAR_MS}, rolled={})
    present = {"1m": {DAY: 1}, "1h": {}, "1d": {}}
    fresh = Days(FAR_MS, present)  # type: ignore[arg-type]  # a dict's key is not narrowed to its literals
    operations, rolled = play({ReadProgress: progress, CountOpen: [], ReadDays: fresh})
    assert operations[-1] == ConfirmFinal("1d", [DAY], 1)
    assert rolled.dropped == []
    known = Days(FAR_MS, present, {("1d", DAY): 0})  # type: ignore[arg-type]  # as above
    operations, rolled = play({ReadProgress: progress, CountOpen: [], ReadDays: known})
    assert operations[-1] == Drop("1m", DAY)
    assert rolled.dropped == [Drop("1m", DAY)]


def test_a_log_whose_clock_jumped_ahead_drops_nothing_before_clickhouse_is_there_too() -> None:
    present = {"1m": {DAY: 1}, "1h": {DAY: 1}, "1d": {date(2026, 3, 1): 1}}
    final = {("1d", DAY): 0}
    progress = Progress(flushed={0: FAR_MS + 10_000 * 86_400_000}, rolled={})
    kept_until_ms = END_MS + 7 * 86_400_000
    for now_ms, dropped in ((kept_until_ms - 1, []), (kept_until_ms, [Drop("1m", DAY)])):
        days = Days(now_ms, present, final)  # type: ignore[arg-type]  # as above
        _, rolled = play({ReadProgress: progress, CountOpen: [], ReadDays: days})
        assert rolled.dropped == dropped


def test_nothing_goes_while_a_partition_has_no_position() -> None:
    operations, _ = play({ReadProgress: Progress({0: FAR_MS}, {}), CountOpen: []}, partitions=2)
    assert operations[-1] == ConfirmShards({0: FAR_MS})


def test_a_refused_family_keeps_the_pass_from_recording_but_not_the_others_from_rolling_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(rollup_steps, "BATCH_CELLS", 1)
    found = [(DAY, name, 1) for name in ("a", "b", "c")]
    operations, rolled = play(
        {ReadProgress: Progress({0: FAR_MS}, {}), CountOpen: found}, refused="b"
    )
    assert [one.first for one in operations if isinstance(one, Roll) and one.grain == "1d"] == [
        "a",
        "c",
    ]
    assert operations[-1] == ConfirmFamilies(frozenset({"a", "c"}), frozenset({"b"}))
    assert len(rolled.problems) == 1


def test_only_slots_from_the_last_one_that_was_open_are_looked_at() -> None:
    progress = Progress(flushed={0: 1, 1: 1}, rolled={0: 1_250_000, 1: 9_999_999})
    assert open_slots(progress, 2) == Open({0: 1_200_000, 1: 9_960_000}, 1_200_000)


def test_a_shard_that_was_never_rolled_up_is_open_from_its_first_slot_on() -> None:
    assert open_slots(Progress({0: 1, 1: 1}, {0: 1_250_000}), 2).least_ms == 0
    # It may be flushed before the leader hears of it from Kafka.
    assert open_slots(Progress({0: 1, 1: 1}, {0: 1_250_000}), 1).least_ms == 0


def test_the_least_log_time_is_of_every_partition_that_kafka_reports() -> None:
    progress = Progress({0: 50, 1: 70}, {0: 40, 1: 90})
    assert least_log_ms(progress, 2) == 50
    assert least_log_ms(progress, 3) is None
    assert least_log_ms(progress, 0) is None


def test_small_families_share_a_statement_and_a_large_one_takes_several() -> None:
    cells = {"c": 5, "a": 5, "b": 3 * BATCH_CELLS + 1, "d": BATCH_CELLS - 5, "e": 1}
    assert list(batches(cells)) == [(["a"], 1), (["b"], 4), (["c", "d"], 1), (["e"], 1)]
    assert list(batches({})) == []


def test_passes_take_at_most_a_quarter_of_the_time() -> None:
    assert pause_s(60, 1) == 59
    assert pause_s(60, 15) == 45
    assert pause_s(60, 100) == 300
