"""Tests that share servers run in one process; all others wherever there is room."""

import pytest

from tests.kit.sharing import group_of, rank

HERE = "tests/integration"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (f"{HERE}/log/test_admin.py::test_a[embedded]", f"{HERE}/log/test_kcat.py::test_b"),
        (f"{HERE}/log/test_admin.py::test_a[kafka]", f"{HERE}/log/test_kcat.py::test_b[kafka-1]"),
        (f"{HERE}/test_path.py::test_a[kafka-json]", f"{HERE}/test_path.py::test_b[kafka]"),
        (f"{HERE}/test_up.py::test_a", f"{HERE}/test_up.py::test_b[2]"),
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
        ("tests/unit/test_spans.py::test_a", "tests/unit/test_spans.py::test_b"),
    ],
)
def test_tests_that_share_nothing_may_run_at_the_same_time(one: str, other: str) -> None:
    assert group_of(one) != group_of(other)


def test_the_longest_begin() -> None:
    names = ("test_up.py", "log/test_kcat.py", "worker/test_kills.py")
    tests = [f"{HERE}/{name}::test_a" for name in names]
    assert sorted(tests, key=rank) == tests[::-1]
