"""Numbers of other clusters' builds, and partitions as ClickHouse names them."""

import pytest

from pipeline.exchange.copying import day_of
from pipeline.exchange.foreign import foreign_number


def test_a_foreign_build_has_the_same_number_for_ever() -> None:
    # The first four bytes of SHA-256 of the text, by sha256sum, with the uppermost bit set.
    identity = "00000000-0000-0000-0000-000000000001"
    assert foreign_number(identity, 1) == 0xAB19178C
    assert foreign_number(identity, 2) == 0x9C62EBB8


@pytest.mark.parametrize(
    ("partition", "day"),
    [
        ("(1,'2026-11-16')", "2026-11-16"),
        ("1", ""),
        ("tuple()", ""),
        ("(2,'2026-11-16')", None),
        ("(11,'2026-11-16')", None),
        ("12", None),
    ],
)
def test_a_partition_tells_build_and_day(partition: str, day: str | None) -> None:
    assert day_of(partition, 1) == day
