"""What the log has in each slot, summed from its records, and held against the ledger."""

import json
from dataclasses import replace

import numpy as np

from pipeline.groupless import UNTOLD
from pipeline.ledger import Entry
from pipeline.reconcile.log_slots import LogSlots, log_differences
from schemas.records import Records

T0 = 1_760_000_040_000
MINUTE = 60_000


def records(first: int, *found: tuple[int, int | None]) -> Records:
    """Records with their time after T0, and their delta; none is no event."""
    values: list[bytes | None] = [
        b"bad" if delta is None else json.dumps({"counter": "a:x", "delta": delta}).encode()
        for _, delta in found
    ]
    return Records(
        0,
        np.arange(first, first + len(found)),
        np.array([T0 + at_ms for at_ms, _ in found]),
        [None] * len(found),
        values,
        [()] * len(found),
    )


def test_records_are_summed_by_the_slot_of_log_time() -> None:
    slots = LogSlots(0)
    slots.add(records(7, (0, 5), (10, -2), (20, None), (MINUTE, 3)))
    slots.add(records(11, (5, 4), (2 * MINUTE, 1)))  # The clock went back; log time does not.
    assert slots.slots == {
        T0: Entry(records=3, rows=2, added=5, taken=2, through=9),
        T0 + MINUTE: Entry(records=2, rows=2, added=7, through=11),
        T0 + 2 * MINUTE: Entry(records=1, rows=1, added=1, through=12),
    }


def test_the_slot_that_is_known_to_have_begun_goes_on() -> None:
    slots = LogSlots(T0 + MINUTE)
    slots.add(records(7, (0, 5)))
    assert set(slots.slots) == {T0 + MINUTE}


def test_what_differs_is_told_and_what_was_not_read_whole_is_not_compared() -> None:
    ledger = {
        0: Entry(9, 9, 9, 0, first=0, through=8),
        1: Entry(3, 3, 6, 1, first=9, through=11),
        2: Entry(1, 1, 1, 0, first=12, through=12),
        4: Entry(5, 5, 5, 0, first=14, through=30),
    }
    log = {
        0: Entry(2, 2, 2, 0),
        1: Entry(3, 2, 6, 2),
        2: Entry(1, 1, 1, 0),
        3: Entry(1, 0, 0, 0),
        4: Entry(1, 1, 1, 0),
    }
    found = log_differences(3, ledger, log, (7, 20))
    assert [(one.slot_ms, one.what, one.ledger, one.log) for one in found] == [
        (1, "rows", 3, 2),
        (1, "taken", 1, 2),
        (3, "no entry in the ledger", None, 1),
    ]


def test_of_a_slot_with_a_record_that_only_workers_can_read_the_records_are_compared() -> None:
    slots = LogSlots(0)
    found_records = records(7, (0, 5), (MINUTE, None), (2 * MINUTE, None))
    slots.add(replace(found_records, headers=[(), UNTOLD, (("", b""),)]))
    assert slots.untold == {T0 + MINUTE}
    ledger = {
        T0: Entry(1, 1, 5, first=7, through=7),
        T0 + MINUTE: Entry(1, 3, 9, first=8, through=8),
        T0 + 2 * MINUTE: Entry(1, 3, 9, first=9, through=9),
    }
    found = log_differences(0, ledger, slots.slots, (7, 10), slots.untold)
    assert {one.slot_ms for one in found} == {T0 + 2 * MINUTE}
    ledger[T0 + MINUTE].records = 2
    [found_one] = [
        one
        for one in log_differences(0, ledger, slots.slots, (7, 10), slots.untold)
        if one.slot_ms == T0 + MINUTE
    ]
    assert found_one.what == "records"
