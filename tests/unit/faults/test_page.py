"""What is said of faults, and which are done."""

from dataclasses import replace

import pytest

from benchmarks._faults_cost import Cost
from benchmarks._faults_kinds import FAULTS, NONE, in_turn
from benchmarks._faults_page import BEGIN, END, Found, page
from benchmarks._faults_stream import COUNTERS
from benchmarks._pages import between
from benchmarks.faults import PAGE
from pipeline.sharding import counter_partition
from tests.chaos.schedule import KINDS
from tests.integration.worker.events import PARTITIONS

CALM = Cost(NONE, 0.8, 0.04, 300, 0, 0, 0.0, 30.0)
KILLED = Cost("kill log", 4.0, 3.5, 100, 2, 30, 3.25, 9.0)
FOUND = Found([CALM, KILLED], 1, 200, 20, 1234, [], {})


def test_a_row_has_what_the_fault_cost_beside_what_is_without_one() -> None:
    told = page(FOUND, "It was idle.")
    assert "| none, for 30 s | 0.80 s | 0.04 s | none of 300 | 30.0 s |" in told
    assert (
        "| the log is killed | 4.0 s | 3.5 s | 2 failed, 30 not complete of 100; 3.2 s at most "
        "| 9.0 s |" in told
    )
    assert "of 1,234 increments **none was lost" in told
    assert told.count("\n| ") == 4  # with the heads and the line below them
    assert "Left out" not in told


def test_of_several_rounds_times_are_medians_with_the_most_and_reads_are_added_up() -> None:
    others = [replace(KILLED, stood_still_s=5.0), replace(KILLED, stood_still_s=9.0, failed=0)]
    told = page(replace(FOUND, costs=[KILLED, *others], rounds=3), "")
    assert "| 5.0 s (9.0) | 3.5 s (3.5) | 4 failed, 90 not complete of 300; 3.2 s at most" in told
    assert "Medians" in told


def test_what_could_not_be_done_and_counts_that_fell_are_told() -> None:
    told = page(replace(FOUND, left_out={"fill disk of log": "no disk"}, fell=["a fell"]), "")
    assert "Left out: fill disk of log: no disk." in told
    assert "**Counts were seen to fall once or more**, at first: a fell." in told


def test_every_fault_is_a_harm_that_chaos_knows() -> None:
    for name, fault in FAULTS.items():
        assert name == fault.name
        if name == NONE:
            with pytest.raises(ValueError, match="is no harm"):
                fault.harm(0)
        else:
            assert fault.harm(1).kind in KINDS


def test_each_round_begins_with_another_fault_and_has_them_all() -> None:
    names = list(FAULTS)
    rounds = [[fault.name for fault in in_turn(names, number)] for number in range(3)]
    assert [each[0] for each in rounds] == names[:3]
    assert all(sorted(each) == sorted(names) for each in rounds)


def test_every_partition_has_some_of_the_counters() -> None:
    places = {counter_partition(counter, 0, PARTITIONS) for counter in COUNTERS}
    assert places == set(range(PARTITIONS))


def test_the_page_has_a_place_for_the_table() -> None:
    assert between(PAGE.read_text(), BEGIN, END)
