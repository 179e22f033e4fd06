"""What a SET statement sets."""

import pytest

from pipeline.embedded.clickhouse.session_settings import assignments


@pytest.mark.parametrize(
    ("sql", "wanted"),
    [
        (b"SET a = 1", {"a": b"1"}),
        (b"set a=1,b = 'x, = y' , c = -2.5", {"a": b"1", "b": b"'x, = y'", "c": b"-2.5"}),
        (b"SET a", {"a": b"1"}),
        (b"SET m = {'a': 1, 'b': 2}, d = DEFAULT", {"m": b"{'a': 1, 'b': 2}", "d": b"DEFAULT"}),
        (b"SET `a` = 1 -- comment, b = 2", {"a": b"1"}),
    ],
)  # fmt: skip
def test_names_and_values_are_told_apart(sql: bytes, wanted: dict[str, bytes]) -> None:
    assert assignments(sql) == wanted
