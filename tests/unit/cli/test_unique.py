"""`tally unique` before it asks anybody, and what it prints."""

from dataclasses import replace

import pytest

from pipeline.cli import run
from pipeline.cli.unique import lines
from pipeline.reads.uniques import UniquesAnswer, WindowUniques

ANSWER = UniquesAnswer(
    counters=["views:home"],
    uniques=10_201,
    low=9_879,
    high=10_544,
    windows=None,
    begins="2026-11-16T11:00:00Z",
    ends="2026-11-16T13:00:00Z",
    as_of="2026-11-16T12:30:00.000Z",
    staleness_ms=900,
    complete=True,
)


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["unique"], "COUNTER"),
        (["unique", "a:b", "--last", "1h", "--since", "2026-01-01"], "--last or --since"),
        (["unique", "a:b", "--since", "2026-01-02", "--until", "2026-01-01"], "ends before"),
        (["unique", "a:b", "--by", "1w"], "1w"),
    ],
)
def test_what_makes_no_sense_is_wrong_usage(
    arguments: list[str], reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(arguments) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert reason in printed.err


def test_the_number_its_bounds_and_its_windows_are_printed() -> None:
    assert list(lines(ANSWER)) == [
        "views:home  10,201  (9,879 to 10,544)",
        "  windows from 2026-11-16T11:00:00Z until 2026-11-16T13:00:00Z",
    ]
    listed = replace(
        ANSWER,
        counters=["views:home", "views:\x1b[31mred"],
        windows=[WindowUniques("2026-11-16T11:00:00Z", 7, 6, 8)],
    )
    first, second, _ = lines(listed)
    assert first.startswith("views:home, views:\\x1b[31mred together  10,201")
    assert second == "  2026-11-16T11:00:00Z             7  (6 to 8)"


def test_what_is_missing_is_printed() -> None:
    poor = replace(
        ANSWER,
        begins=None,
        ends=None,
        complete=False,
        spilled_to="views:",
        remarks=["no members of views:\x07 are known in what was asked for"],
    )
    assert [line.strip()[:16] for line in lines(poor)][1:] == [
        "not complete: a ",
        "may be too low: ",
        "no members of vi",
    ]
    assert "\x07" not in "".join(lines(poor))


def test_the_document_has_what_was_promised_and_the_rest_where_there_is_need() -> None:
    document = ANSWER.document()
    assert {name: document[name] for name in ("counters", "uniques", "low", "high")} == {
        "counters": ["views:home"],
        "uniques": 10_201,
        "low": 9_879,
        "high": 10_544,
    }
    assert (document["from"], document["until"]) == (ANSWER.begins, ANSWER.ends)
    assert {"windows", "remarks", "capped", "spilled_to"}.isdisjoint(document)
    full = replace(ANSWER, windows=[], spilled_to="views:", remarks=["x"]).document()
    assert (full["windows"], full["capped"], full["remarks"]) == ([], True, ["x"])
