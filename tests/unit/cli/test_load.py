"""What `tally load` refuses before it asks anybody, and what it shows."""

from pathlib import Path

import pytest

from pipeline.cli import run
from pipeline.cli.load import live_line
from pipeline.load.figures import Figures


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (["--seconds", "1", "--events", "1"], "--seconds or --events, not both"),
        (["--strategy", "best"], "'best' is none of random, member, round-robin"),
        (["--family", "a:b"], "has a colon"),
        (["--regions", "eu,*"], "'*' means all regions"),
        (["--late", "2"], "--late"),
        (["--rate", "-1"], "--rate"),
        (["--skew", "99"], "skew: 99 is not from 0 to 10"),
        (["--truth", "/nowhere/truth.ndjson"], "cannot write /nowhere/truth.ndjson"),
    ],
)
def test_what_makes_no_sense_is_wrong_usage(
    options: list[str], reason: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert run(["load", *options]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.count("\n") == 1
    assert reason in printed.err


def test_how_it_goes_is_added_up_over_processes() -> None:
    one = Figures(sent=9_000, stored=8_000, unknown=1, refused=2, seconds=2.0)
    other = Figures(sent=1_000, stored=900, unknown=2, refused=3, seconds=1.5)
    other.recent.add(250.0)
    one.merge(other)
    assert (one.sent, one.stored, one.unknown, one.refused) == (10_000, 8_900, 3, 5)
    line = live_line(one)
    assert line.startswith("10,000 sent in 2.0 s: 5,000/s · delivery p99 2")
    assert line.endswith("ms · 3 unknown")
    assert "not known" in live_line(Figures())
