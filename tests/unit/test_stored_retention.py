"""Retention as ClickHouse keeps it, and whose file decides it."""

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from pipeline.control.kept import (
    kept_by,
    parse_retention,
    retention_differences,
    retention_document,
    retention_settings,
)
from pipeline.control.rules_diff import Difference
from pipeline.control.stored_retention import StoredRetention, settle_retention
from pipeline.errors import OperatorError
from schemas.families import Families, parse_families

NOW_MS = 1_760_000_000_000
FILE = Path("tally.toml")
LONG = parse_families('[default]\nretention."1m" = "30d"\n[families.a]\nretention."1d" = "90s"')
SHORT = parse_families('[default]\nretention."1m" = "2d"')


class Rows:
    """Answers as the table does, from a list of its rows."""

    def __init__(self) -> None:
        self.rows: list[tuple[int, str]] = []
        self.result_rows: Sequence[Sequence[Any]] = []

    def query(self, text: str) -> "Rows":
        newest = sorted(self.rows, reverse=True)[:1]
        exists = text.startswith("EXISTS")
        self.result_rows = [[1]] if exists else [(text, at_ms) for at_ms, text in newest]
        return self

    def insert(self, _table: str, rows: list[tuple[datetime, str]], **_names: object) -> None:
        self.rows += [(round(at.timestamp() * 1000), document) for at, document in rows]


class StillClock:
    def __init__(self, now_ms: int = NOW_MS) -> None:
        self._now_ms = now_ms

    def now_ms(self) -> int:
        return self._now_ms

    def monotonic_s(self) -> float:
        return 0.0


def stored_in(rows: Rows, now_ms: int = NOW_MS) -> StoredRetention:
    return StoredRetention(rows, StillClock(now_ms))  # type: ignore[arg-type]  # as much of a client as it uses


def test_retention_reads_back_as_it_was_written_and_nothing_else_of_the_rules_does() -> None:
    assert parse_retention(retention_document(LONG)) == kept_by(LONG)
    assert parse_retention(retention_document(Families())) == Families()
    counted = parse_families('ids_per_partition = 3\n[families.b]\nlateness = "2h"')
    assert retention_document(counted) == retention_document(Families())


@pytest.mark.parametrize(
    "document", ["", "[]", "{}", '{"default": {"1m": 5}, "families": {}}', '{"default": 1}']
)
def test_what_is_no_retention_is_refused(document: str) -> None:
    with pytest.raises(OperatorError, match=r"tally\.retention has a row"):
        parse_retention(document)


def test_differences_are_told_in_the_words_of_the_file() -> None:
    assert retention_differences(Families(), LONG) == [
        Difference("default.retention.1m", "7d", "30d"),
        Difference("families.a.retention.1m", "7d", "30d"),
        Difference("families.a.retention.1d", "forever", "90s"),
    ]
    assert retention_differences(LONG, LONG) == []
    assert retention_settings(LONG)["families.a.retention.1d"] == "90s"


def test_without_a_stored_retention_the_defaults_hold() -> None:
    stored = stored_in(Rows())
    assert stored.read() is None
    assert stored.holding() == Families()


def test_the_last_that_was_stored_holds_though_the_clocks_of_those_who_store_differ() -> None:
    rows = Rows()
    assert stored_in(rows, NOW_MS).store(LONG)
    assert stored_in(rows, NOW_MS - 3_600_000).store(SHORT)
    assert stored_in(rows).holding() == kept_by(SHORT)
    assert not stored_in(rows).store(SHORT)
    assert len(rows.rows) == 2


def test_a_first_file_is_stored_and_a_worker_with_another_is_warned_that_it_does_not_hold(
    caplog: pytest.LogCaptureFixture,
) -> None:
    stored = stored_in(Rows())
    assert settle_retention(stored, LONG, FILE, overrule=False)
    assert not caplog.text
    assert settle_retention(stored, SHORT, FILE, overrule=False) == []
    assert stored.holding() == kept_by(LONG)
    assert "default.retention.1m: 30d -> 2d" in caplog.text
    assert "`tally rules apply tally.toml`" in caplog.text


def test_a_file_that_may_overrule_is_stored(caplog: pytest.LogCaptureFixture) -> None:
    stored = stored_in(Rows())
    stored.store(LONG)
    changed = settle_retention(stored, SHORT, FILE, overrule=True)
    assert Difference("default.retention.1m", "30d", "2d") in changed
    assert stored.holding() == kept_by(SHORT)
    assert not caplog.text
