"""Tests that share servers run in one process; all others wherever there is room."""

from pathlib import Path

import pytest

from tests.kit.sharing import APART, LONGEST, group_of, rank

HERE = "tests/integration"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (f"{HERE}/log/test_admin.py::test_a[embedded]", f"{HERE}/log/test_kcat.py::test_b"),
        (f"{HERE}/log/test_admin.py::test_a[kafka]", f"{HERE}/log/test_kcat.py::test_b[kafka-1]"),
        (f"{HERE}/test_path.py::test_a[kafka-json]", f"{HERE}/test_path.py::test_b[kafka]"),
        (f"{HERE}/test_up.py::test_a", f"{HERE}/test_up.py::test_b[2]"),
        (f"{HERE}/builds/test_replay.py::test_a", f"{HERE}/builds/test_replay.py::test_b"),
        (f"{HERE}/producer/test_load.py::test_a", f"{HERE}/producer/test_produce.py::test_b"),
    ],
)
def test_tests_that_share_servers_share_a_process(one: str, other: str) -> None:
    assert group_of(one) == group_of(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (f"{HERE}/log/test_admin.py::test_a", f"{HERE}/worker/test_admin.py::test_a"),
        (f"{HERE}/log/test_admin.py::test_a[embedded]", f"{HERE}/log/test_admin.py::test_a[kafka]"),
        (f"{HERE}/test_path.py::test_a[embedded]", f"{HERE}/test_path.py::test_a[kafka]"),
        (f"{HERE}/test_up.py::test_a", f"{HERE}/test_reads.py::test_a"),
        (f"{HERE}/builds/test_replay.py::test_a", f"{HERE}/builds/test_kills.py::test_a"),
        (f"{HERE}/producer/test_load.py::test_a", f"{HERE}/producer/test_viral.py::test_a"),
        ("tests/unit/test_spans.py::test_a", "tests/unit/test_spans.py::test_b"),
    ],
)
def test_tests_that_share_nothing_may_run_at_the_same_time(one: str, other: str) -> None:
    assert group_of(one) != group_of(other)


def test_the_longest_begin() -> None:
    names = ("test_rules.py", "log/test_kcat.py", "worker/test_kills.py")
    tests = [f"{HERE}/{name}::test_a" for name in names]
    assert sorted(tests, key=rank) == tests[::-1]


def test_what_is_named_is_there() -> None:
    folder = Path(__file__).parents[1] / "integration"
    files = [file.relative_to(folder).with_suffix("") for file in folder.glob("**/test_*.py")]
    groups = {group_of(f"{HERE}/{file}.py::test_a") for file in files}
    chaos = {file.stem for file in (folder.parent / "chaos").glob("test_*.py")}
    groups |= {group_of(f"tests/chaos/{name}.py::test_a") for name in chaos}
    assert {name.removesuffix("-kafka") for name in LONGEST} <= groups
    assert {str(file) for file in files} | {file.parts[0] for file in files} >= APART
