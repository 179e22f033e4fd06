"""Every part of a worker has a stage in its profile."""

import subprocess
import sys

import pytest

from benchmarks._profile_stages import (
    CALLER,
    COUNT,
    DECODE,
    FLUSH,
    LOOP,
    OTHER,
    STAGE_OF_MODULE,
    STAGES,
    entry_of,
    stage_of,
)

OURS = ("pipeline", "schemas", "sketches")
LISTED = """
import sys, pipeline.run_worker
print(*(name for name in sys.modules if "." in name))
"""


@pytest.fixture(scope="module")
def imported() -> list[str]:
    """The modules of ours that a worker imports, packages by their modules."""
    command = [sys.executable, "-c", LISTED]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60)
    return [name for name in done.stdout.split() if name.partition(".")[0] in OURS]


def test_every_module_that_a_worker_imports_has_a_stage(imported: list[str]) -> None:
    assert "pipeline.writes.sink" in imported
    assert [name for name in imported if entry_of(name) is None] == []


def test_no_stage_is_given_to_a_module_that_no_worker_has(imported: list[str]) -> None:
    ours = [name for name in STAGE_OF_MODULE if name.partition(".")[0] in OURS]
    gone = [n for n in ours if not any(one == n or one.startswith(f"{n}.") for one in imported)]
    assert gone == []


def test_stages_are_those_that_are_shown() -> None:
    assert set(STAGE_OF_MODULE.values()) <= {*STAGES, CALLER}


def test_the_innermost_module_with_a_stage_decides() -> None:
    assert stage_of(["msgspec", "pipeline.decode_json", "pipeline.absorb"]) == DECODE
    assert stage_of(["pipeline.shard", "pipeline.absorb", "asyncio.events"]) == COUNT


def test_who_serves_several_stages_leaves_it_to_its_caller() -> None:
    assert stage_of(["pipeline.cells", "pipeline.writes.cell_rows", "pipeline.worker"]) == FLUSH


def test_a_stack_of_the_loop_alone_is_the_loops_and_an_unknown_one_is_other() -> None:
    assert stage_of(["selectors", "asyncio.base_events"]) == LOOP
    assert stage_of(["threading"]) == OTHER


def test_a_name_that_only_begins_alike_is_another_module() -> None:
    assert entry_of("pipeline.cellsheet") is None
