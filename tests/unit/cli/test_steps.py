"""The line that says how much is copied."""

import io

from pipeline.cli.steps import EVERY_S, PRINT_EVERY_S, Steps
from tests.kit.clocks import ManualClock


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminals_line_is_redrawn_and_cleared_at_the_end() -> None:
    out, clock = Terminal(), ManualClock()
    with Steps(out, clock, silent=False) as steps:
        steps.step("increments")
        steps.copied(1_000_000)
        clock.advance(EVERY_S)
        steps.copied(500_000)
    assert out.getvalue().split("\r\x1b[K") == [
        "",
        "tally: increments: 0.0 MB copied",
        "tally: increments: 1.5 MB copied",
        "",
    ]


def test_a_file_gets_a_line_now_and_then() -> None:
    out, clock = io.StringIO(), ManualClock()
    with Steps(out, clock, silent=False) as steps:
        steps.step("tables")
        steps.copied(2_000_000)
        clock.advance(PRINT_EVERY_S)
        steps.copied(0)
        steps.copied(0)
    assert out.getvalue() == "tally: tables: 2.0 MB copied\n"


def test_with_json_nothing_is_told() -> None:
    out, clock = Terminal(), ManualClock()
    with Steps(out, clock, silent=True) as steps:
        steps.step("tables")
        clock.advance(PRINT_EVERY_S)
        steps.copied(1)
    assert out.getvalue() == ""
