"""Files of adjustments: both formats, ids of their own, and every mistake with its line."""

import json

import pytest

from pipeline.adjustments.lines import Mistake, read_lines
from schemas.adjustments import Draft

DAY = "2026-11-15"
DAY_MS = 1_794_700_800_000
ROWS = [
    {"counter": "likes:a", "by": -17},
    {"counter": "likes:b", "by": 4, "grain": "1d", "window": DAY, "region": "eu", "who": "import"},
]
NDJSON = "".join(json.dumps(row) + "\n" for row in ROWS).encode()
CSV = b"counter,by,grain,window,region,who\nlikes:a,-17,,,,\nlikes:b,+4,1d,2026-11-15,eu,import\n"


def drafts(data: bytes) -> list[Draft]:
    lines, mistakes = read_lines(data, who="ann", why="case 811")
    assert mistakes == []
    return [line.draft for line in lines]


def mistakes(data: bytes, why: str | None = "case 811") -> list[Mistake]:
    return read_lines(data, who="ann", why=why)[1]


@pytest.mark.parametrize("data", [NDJSON, CSV, b"\xef\xbb\xbf" + CSV, CSV.replace(b"\n", b"\r\n")])
def test_json_lines_and_csv_say_the_same(data: bytes) -> None:
    first, second = drafts(data)
    assert (first.counter, first.contents, first.who) == ("likes:a", (-17, "", "", 0), "ann")
    assert (second.contents, second.who) == ((4, "eu", "1d", DAY_MS), "import")
    assert {first.why, second.why} == {"case 811"}


def test_the_same_file_has_the_same_ids_and_another_one_others() -> None:
    first, second = ([one.id for one in drafts(NDJSON)] for _ in range(2))
    assert first == second
    assert len({*first, *(one.id for one in drafts(NDJSON + b"\n"))}) == 4


def test_ids_of_lines_are_kept() -> None:
    assert drafts(b'{"counter": "a:b", "by": 1, "id": "mine"}')[0].id == "mine"


def test_all_mistakes_are_told_with_their_lines() -> None:
    data = (
        b'{"counter": "a:b", "by": 1}\n\n{"counter": "a", "by": 0}\nnot\n[]\n'
        b'{"counter": "a:b", "byy": 1}'
    )
    assert mistakes(data) == [
        (3, "counter: has no family; write family:key; by: 0 changes nothing"),
        (4, "not JSON"),
        (5, "not a JSON object"),
        (6, "by: missing; byy: unknown field"),
    ]


def test_mistakes_of_csv_have_their_lines_too() -> None:
    data = b'counter,by,why\na:b,1,"two\nlines"\na:b,x,y\na:b,1\n'
    assert mistakes(data) == [
        (4, "by: not a whole number"),
        (5, "2 fields, but the first line names 3"),
    ]


def test_the_same_id_twice_in_a_file_is_a_mistake_unless_counters_differ() -> None:
    line = '{"counter": "a:%s", "by": 1, "id": "x"}\n'
    assert mistakes((line % "b" + line % "c").encode()) == []
    assert mistakes((line % "b" * 2).encode()) == [(2, "id: the same as in line 1")]


def test_somebody_must_say_why() -> None:
    assert mistakes(b'{"counter": "a:b", "by": 1}', why=None) == [
        (1, "why: missing; say it in the line, or for all with --why")
    ]


@pytest.mark.parametrize("data", [b"", b"\n \n", b"counter,by\n"])
def test_a_file_with_nothing_in_it_is_a_mistake(data: bytes) -> None:
    assert mistakes(data) == [(1, "no adjustments in it")]


def test_what_is_no_text_is_told() -> None:
    assert mistakes(b"counter,by\n\xff:b,1\n") == [(2, "not UTF-8 text")]
