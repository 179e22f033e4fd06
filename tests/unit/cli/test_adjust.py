"""What `tally adjust` tells people."""

import pytest

from pipeline.cli.adjusting import line_of, unknown_text
from schemas.adjustments import Adjustment

MADE = {"counter": "a:b", "by": -3, "who": "ann", "why": "so", "at": 1_794_800_000_000}


def adjustment(id_: str, **changed: object) -> Adjustment:
    return Adjustment.model_validate({**MADE, "id": id_, **changed})


def test_who_does_not_know_is_told_to_run_the_same_again() -> None:
    sent, unknown = [adjustment("w"), adjustment("x")], {1: "timed out"}
    assert unknown_text(sent, unknown, None) == (
        "unknown whether it was stored (timed out); run the same command again with --id x: it "
        "counts once"
    )
    assert unknown_text(sent, unknown, "f.csv") == (
        "unknown whether 1 of 2 were stored (timed out); run the same file again: each line counts "
        "once"
    )


@pytest.mark.parametrize(
    ("changed", "line"),
    [
        ({"before": 1200, "after": 1197}, "a:b: 1,200 -> 1,197 (-3), adjustment x"),
        ({}, "a:b: (-3), adjustment x"),
        (
            {"before": 3, "after": 0, "grain": "1d", "window": "2026-11-15T00:00:00Z"},
            "a:b 1d 2026-11-15T00:00:00Z: 3 -> 0 (-3), adjustment x",
        ),
        ({"region": "eu", "before": 0, "after": -3}, "a:b in eu: 0 -> -3 (-3), adjustment x"),
    ],
)
def test_an_adjustment_is_one_line(changed: dict[str, object], line: str) -> None:
    assert line_of(adjustment("x", **changed)) == line


def test_an_id_of_a_stranger_cannot_play_tricks_on_a_terminal() -> None:
    assert "\x1b" not in line_of(adjustment("\x1b[31m"))
