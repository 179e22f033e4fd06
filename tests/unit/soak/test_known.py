"""What is known to grow during a soak."""

from pathlib import Path

from benchmarks._soak_known import log_bytes, segments_in, worker_bytes


def test_a_worker_grows_by_the_members_that_come_in_an_hour() -> None:
    assert worker_bytes(3600) - worker_bytes(0) == 36_000 * 52


def test_a_log_has_the_index_of_its_growing_segments_in_memory(tmp_path: Path) -> None:
    partition = tmp_path / "tally.increments-0"
    partition.mkdir()
    (partition / "0.log").write_bytes(bytes(1 << 20))
    (partition / "0.meta").write_bytes(b"known")
    (partition / "9.log").write_bytes(bytes(64 * 1024))
    found = segments_in(tmp_path)
    assert sorted(found) == [(64 * 1024, False), (1 << 20, True)]
    assert log_bytes(found) == 48
