"""Headers: the summary and the content type."""

import json

from pipeline.embedded.clickhouse.counts import Counts, summary
from pipeline.embedded.clickhouse.formats import content_type


def test_the_summary_writes_numbers_as_text() -> None:
    values = json.loads(summary(Counts(read_rows=3, read_bytes=24, result_rows=1, elapsed_ns=5)))
    assert values["read_rows"] == "3"
    assert values["result_rows"] == "1"
    assert values["written_rows"] == "0"
    assert values["elapsed_ns"] == "5"


def test_what_was_inserted_was_read_first() -> None:
    values = json.loads(summary(Counts(written_rows=7, written_bytes=70)))
    assert (values["read_rows"], values["read_bytes"]) == ("7", "70")


def test_formats_have_their_content_types() -> None:
    assert content_type("JSONEachRow").startswith("application/x-ndjson")
    assert content_type("JSONCompact").startswith("application/json")
    assert content_type("CSVWithNames") == "text/csv; charset=UTF-8; header=present"
    assert content_type("Native") == "application/octet-stream"
    assert content_type("Pretty") == "text/plain; charset=UTF-8"
