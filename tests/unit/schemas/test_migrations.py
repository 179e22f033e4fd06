"""What of migrations needs no server: reading files and taking them apart."""

from pathlib import Path

import pytest

from pipeline.errors import OperatorError
from schemas.migrate import SQL_FOLDER, read_migrations
from schemas.sql_statements import split_statements


def test_statements_end_at_a_semicolon_that_ends_its_line() -> None:
    text = "SELECT 1;\nSELECT 2; SELECT 3;\n\nSELECT 4; -- done\nSELECT 5"
    assert split_statements(text) == ["SELECT 1", "SELECT 2; SELECT 3", "SELECT 4", "SELECT 5"]


@pytest.mark.parametrize(
    "statement",
    ["SELECT ';\n'", "SELECT 'it''s;\n'", "SELECT 'a\\';\n'", 'SELECT ";\n"', "SELECT `;\n`"],
)
def test_a_semicolon_in_quotes_ends_nothing(statement: str) -> None:
    assert split_statements(f"{statement};\nSELECT 2;\n") == [statement, "SELECT 2"]


def test_comments_are_left_out() -> None:
    text = "-- it's;\nSELECT/* ;\n */1 -- one;\n;\n/* only this */\n;"
    assert split_statements(text) == ["SELECT 1"]


def test_migrations_are_read_by_number(tmp_path: Path) -> None:
    (tmp_path / "0002_more.sql").write_text("SELECT 2;")
    (tmp_path / "0001_first.sql").write_text("SELECT 1;\nSELECT 'one';\n")
    (tmp_path / "README.md").write_text("not SQL")
    first, second = read_migrations(tmp_path)
    assert (first.file, first.statements) == ("0001_first.sql", ("SELECT 1", "SELECT 'one'"))
    assert (second.number, second.name) == (2, "more")
    assert first.checksum != second.checksum


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["0001_a.sql", "0003_c.sql"], r"0003_c\.sql: number 0002 was expected"),
        (["0001_a.sql", "0001_b.sql"], r"0001_b\.sql: number 0002 was expected"),
        (["0000_a.sql"], r"0000_a\.sql: number 0001 was expected"),
        (["1_a.sql"], r"1_a\.sql: a migration is named NNNN_name\.sql"),
    ],
)
def test_gaps_twins_and_strange_names_are_refused(
    names: list[str], message: str, tmp_path: Path
) -> None:
    for name in names:
        (tmp_path / name).write_text("SELECT 1;")
    with pytest.raises(OperatorError, match=message):
        read_migrations(tmp_path)


def test_the_migrations_of_this_tally_can_be_read() -> None:
    migrations = read_migrations(SQL_FOLDER)
    assert migrations
    assert all(migration.statements for migration in migrations)
