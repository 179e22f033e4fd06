"""What a soak says in the end, and when it fails."""

from dataclasses import replace

from benchmarks._soak_flat import Asked, Series
from benchmarks._soak_page import Found, page

HOUR_S = 3600.0


def line(first: float, per_hour: float = 0.0) -> Series:
    return [(at_s, first + per_hour * at_s / HOUR_S) for at_s in range(0, 3600, 2)]


CALM = Found(
    watched={
        "memory": {"log": line(60), "worker": line(500, 20)},
        "handles": {"log": line(39), "worker": line(38)},
        "reads": {"exact": line(200)},
    },
    known={"worker": line(0, 15)},
    asked=[Asked("reads", 18_000, 3), Asked("strict commands", 7_000, 0)],
    rate=50_000,
    sent_per_s=49_900,
    processor=0.2,
)


def test_a_calm_hour_is_well_and_its_page_names_what_is_known_to_grow() -> None:
    assert CALM.is_well(HOUR_S)
    told = page(CALM, HOUR_S, "json", "It was idle.")
    assert "49,900 of 50,000 events/s were sent (json)" in told
    assert "| memory, MiB: worker | 510.0 | 516.7 | 551.5 | +20.0 | 15.0 | 24.0 | yes |" in told
    assert "3 of 18,000 reads failed; 18 may." in told
    assert "**" not in told


def test_reads_that_fail_more_often_than_stated_fail_the_soak() -> None:
    failing = replace(CALM, asked=[Asked("reads", 18_000, 19), Asked("strict commands", 7_000, 0)])
    assert not failing.is_well(HOUR_S)
    assert "19 of 18,000 reads failed; 18 may: **too many**." in page(failing, HOUR_S, "json", "")


def test_commands_that_fail_fail_the_soak_as_well() -> None:
    failing = replace(CALM, asked=[Asked("reads", 18_000, 0), Asked("strict commands", 7_000, 8)])
    assert not failing.is_well(HOUR_S)


def test_a_slow_leak_of_one_process_fails_the_soak() -> None:
    leaking = {**CALM.watched, "memory": {"log": line(60, 12), "worker": line(500)}}
    found = replace(CALM, watched=leaking)
    assert not found.is_well(HOUR_S)
    assert "| +12.0 | 0.0 | 8.0 | **no** |" in page(found, HOUR_S, "json", "")


def test_a_load_that_fell_behind_proves_nothing() -> None:
    behind = replace(CALM, sent_per_s=47_000)
    assert not behind.is_well(HOUR_S)
    assert "too few to prove anything" in page(behind, HOUR_S, "json", "")
