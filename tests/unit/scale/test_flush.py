"""What a flush costs by itself is told apart from what its cells cost."""

import pytest

from benchmarks.flush import Cost, per_million


def test_cells_cost_what_a_flush_takes_beyond_a_small_one() -> None:
    large = Cost("cells", 10, 100_000, 50_000, 0.2, 0.6, 1_000_000)
    small = Cost("small", 100, 1_000, 1_000, 0.5, 4.0, 20_000)
    assert (large.cells_per_flush, large.clickhouse_ms, large.worker_ms) == (10_000, 60, 20)
    found = per_million(large.clickhouse_ms, small.clickhouse_ms, large.cells_per_flush)
    assert found == pytest.approx(2.0)  # 20 ms for 10,000
