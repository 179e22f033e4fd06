"""The collector leaves what a process loads alone, and works as usual afterwards."""

import subprocess
import sys

PROGRAM = """\
import gc
usual = gc.get_threshold()
from pipeline.garbage import collect_seldom, keep_what_is_loaded
collect_seldom()
looks = gc.get_stats()[0]["collections"]
loaded = [[number] for number in range(40_000)]
print(gc.get_stats()[0]["collections"] - looks)
keep_what_is_loaded()
print(gc.get_threshold() == usual, gc.get_freeze_count() > 40_000)
looks = gc.get_stats()[0]["collections"]
more = [[number] for number in range(40_000)]
print(gc.get_stats()[0]["collections"] - looks > 10)
"""


def test_what_is_loaded_is_not_looked_at_while_it_is_loaded_nor_afterwards() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.splitlines() == ["0", "True True", "True"]
