from datetime import datetime

import pyarrow as pa
import pytest

from schemas.frame_columns import REFUSED_AT, times_from_text
from schemas.times import AT_MAX_MS, parse_rfc3339_ms

READ = [
    ("1970-01-01T00:00:00Z", 0),
    ("2106-02-07T06:28:15.999Z", AT_MAX_MS),
    ("2026-11-16T04:06:36.5+02:00", None),
    ("2026-11-16t04:06:36.123456z", None),
    ("2026-11-16 04:06:36-00:00", None),
    ("2000-02-29T23:59:59.9999Z", None),
    ("1970-01-01T00:30:00+01:00", -1_800_000),
]
NOT_READ = [
    "", "2026-11-16", "2026-11-16T04:06Z", "2026-11-16T04:06:36", "2026-11-16T04:06:36+0100",
    "2026-11-16T24:00:00Z", "2026-11-16T04:60:36Z", "2016-12-31T23:59:60Z", "2001-02-29T00:00:00Z",
    "2026-13-01T00:00:00Z", "2026-00-10T00:00:00Z", "2026-11-16T04:06:36.Z",
    "2026-11-16T04:06:36Z\n", "0000-01-01T00:00:00Z", "٢٠٢٦-11-16T04:06:36Z",
    "2026-11-16T04:06:36+24:00",
    "2026-11-16T04:06:36." + "1" * 33 + "Z",
]  # fmt: skip


@pytest.mark.parametrize(("text", "expected_ms"), READ)
def test_rfc3339_text_is_read_to_the_millisecond(text: str, expected_ms: int | None) -> None:
    if expected_ms is None:
        moment = datetime.fromisoformat(text.upper())
        expected_ms = int(moment.timestamp()) * 1000 + moment.microsecond // 1000
    assert parse_rfc3339_ms(text) == expected_ms


@pytest.mark.parametrize("text", NOT_READ)
def test_other_text_is_no_time(text: str) -> None:
    assert parse_rfc3339_ms(text) is None


@pytest.mark.parametrize("with_a_bad_date", [False, True])
def test_a_column_of_texts_reads_as_each_of_them(with_a_bad_date: bool) -> None:
    # An impossible date makes the reading in bulk give up, so both ways are taken.
    texts = [text for text, _ in READ] + (NOT_READ if with_a_bad_date else ["", "yesterday"])
    one_by_one = [parse_rfc3339_ms(text) for text in texts]
    expected = [REFUSED_AT if at_ms is None else at_ms for at_ms in one_by_one]
    assert times_from_text(pa.array([*texts, None])).to_pylist() == [*expected, None]
