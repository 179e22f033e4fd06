"""What processes cost is read out of /proc, between two times."""

import os
import subprocess
import sys
import time

import pytest

from benchmarks.race.usage import EVERY_S, Usage, cpu_s, descendants, peak_kb, seconds_between, tree

GONE = 1 << 22
"""No process has an id as great as this by default."""

POINTS = [(10.0, 1.0), (12.0, 2.0), (13.0, 4.0)]


@pytest.mark.parametrize(
    ("begin_s", "end_s", "grew"),
    [(10, 13, 3.0), (11, 12.5, 1.5), (12, 13, 2.0), (5, 11, 0.5), (12.5, 99, 1.0), (11, 11, 0.0)],
)
def test_a_growing_figure_is_a_line_between_its_points(
    begin_s: float, end_s: float, grew: float
) -> None:
    assert seconds_between(POINTS, begin_s, end_s) == pytest.approx(grew)


def test_without_points_nothing_can_be_said() -> None:
    with pytest.raises(ValueError, match="nothing was seen"):
        seconds_between([], 0, 1)


def test_descendants_are_children_of_children() -> None:
    parents = {2: 1, 3: 2, 4: 3, 5: 1, 6: 9}
    assert descendants(2, parents) == {2, 3, 4}
    assert descendants(7, parents) == set()


def test_a_process_that_is_gone_costs_nothing() -> None:
    assert (cpu_s(GONE), peak_kb(GONE), tree(GONE)) == (0.0, 0, {})


def test_this_process_is_in_its_own_tree_and_has_used_something() -> None:
    assert os.getpid() in tree(os.getpid())
    assert peak_kb(os.getpid()) > 1_000
    assert cpu_s(os.getpid()) <= cpu_s(os.getpid(), ended_children=True)


def test_what_a_child_and_its_child_use_is_seen_with_their_memory() -> None:
    busy = "x = bytearray(50_000_000)\nimport time\nwhile time.process_time() < 0.3: pass"
    both = f"import subprocess, sys\nsubprocess.run([sys.executable, '-c', {busy!r}])\n{busy}"
    began_s = time.time()
    with subprocess.Popen([sys.executable, "-c", both]) as child:
        usage = Usage(child.pid, {"this": os.getpid()})
        child.wait(30)
        ended_s = time.time()
        time.sleep(2 * EVERY_S)  # it is looked for after its end, too
        usage.stop()
    cost = usage.cost(began_s, ended_s)
    assert 0.4 < cost.own_s < 2.0
    assert cost.own_mb > 90
    assert set(cost.servers_s) == set(cost.servers_mb) == {"this"}
    assert usage.cost(began_s - 9, began_s - 5).own_s == 0
