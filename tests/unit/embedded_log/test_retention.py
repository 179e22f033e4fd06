from pipeline.embedded.log.retention import Extent, expired_count
from pipeline.embedded.log.topic_config import TopicConfig


def config(**settings: str) -> TopicConfig:
    return TopicConfig({name.replace("_", "."): value for name, value in settings.items()})


def test_segments_go_when_their_newest_record_is_too_old() -> None:
    extents = [Extent(10, 100), Extent(10, 200), Extent(10, 300)]
    rule = config(retention_ms="50")
    assert [expired_count(extents, rule, now) for now in (150, 151, 251, 351)] == [0, 1, 2, 3]


def test_an_old_segment_behind_a_young_one_stays() -> None:
    assert expired_count([Extent(10, 300), Extent(10, 100)], config(retention_ms="50"), 340) == 0


def test_by_size_at_least_the_wanted_bytes_are_left() -> None:
    extents = [Extent(10, 0)] * 4
    rule = [config(retention_ms="-1", retention_bytes=str(n)) for n in (40, 31, 30, 15, 0)]
    assert [expired_count(extents, r, 0) for r in rule] == [0, 0, 1, 2, 3]


def test_nothing_goes_from_a_topic_that_is_only_compacted() -> None:
    rule = config(cleanup_policy="compact", retention_ms="1", retention_bytes="1")
    assert expired_count([Extent(10, 0)] * 3, rule, 10**12) == 0
