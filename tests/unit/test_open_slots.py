"""From when on sketches may not be rolled up for good."""

from typing import Any

from pipeline.reads.reads import FlushedShard, Reads
from pipeline.reads.sketched import open_since_s

MINUTE_MS = 60_000
ROLLED_MS = 1_800_000_000_000


class Stored(Reads):
    """Shards that are rolled up that far, beside so many clusters."""

    def __init__(self, clusters: int, *rolled_ms: int | None) -> None:
        self._clusters = clusters
        self._rolled_ms = rolled_ms

    def rows(self, query: str, *_: Any) -> list[tuple[Any, ...]]:
        assert query == "SELECT count() FROM tally.live_builds"
        return [(self._clusters,)]

    def positions(self, build: int | None = None) -> list[FlushedShard]:
        del build
        return [FlushedShard(shard, 0, 0, 0, 0, 0) for shard in range(len(self._rolled_ms))]

    def rolled_log_ms(self) -> dict[int, int]:
        return {shard: ms for shard, ms in enumerate(self._rolled_ms) if ms is not None}


def test_it_is_the_least_of_all_shards_and_nothing_where_one_never_was() -> None:
    assert open_since_s(Stored(1, ROLLED_MS + 5 * MINUTE_MS, ROLLED_MS)) == ROLLED_MS // 1000
    assert open_since_s(Stored(1, ROLLED_MS, None)) == 0


def test_nothing_is_rolled_up_for_good_where_other_clusters_sketches_are_as_well() -> None:
    """Theirs come as minutes, and were in no estimate until their own rollups came, too."""
    assert open_since_s(Stored(2, ROLLED_MS, ROLLED_MS)) == 0
