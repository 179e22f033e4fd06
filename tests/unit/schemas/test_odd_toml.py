"""Texts of TOML that Python's reader does not refuse by its own error."""

import pytest

from pipeline.errors import OperatorError
from schemas.families import parse_families
from schemas.tokens import parse_tokens

TOKEN = f'[tokens.x]\nhash = "sha256:{"ab" * 32}"\n'


@pytest.mark.parametrize(
    "text",
    ["ids_per_partition = " + "9" * 5000, "a = " + "[" * 2000, "a = " + "[" * 900 + "]" * 900],
    ids=["digits", "nested and not closed", "nested"],
)
def test_long_numbers_and_deep_nesting_are_told_in_one_line(text: str) -> None:
    with pytest.raises(OperatorError) as told:
        parse_families(text)
    assert str(told.value).startswith("tally.toml:1: ")


def test_a_line_of_a_text_that_looks_like_a_key_is_none() -> None:
    text = "note = '''\n\"\\q\" = 1\n'''\n[default]\nkinds = 'exact'\n"
    with pytest.raises(OperatorError, match=r"tally\.toml:5: default\.kinds: unknown"):
        parse_families(text)


@pytest.mark.parametrize(
    ("moment", "at_ms"),
    [
        ("9999-12-31T23:59:59.999999-23:59", 253402387139999),
        ("0001-01-01T00:00:00+23:59", -62135683140000),
        ("2027-01-31T00:00:00.0015+01:00", 1801350000001),
    ],
)
def test_moments_at_the_ends_of_time_are_read(moment: str, at_ms: int) -> None:
    assert parse_tokens(f"{TOKEN}expires = {moment}\n").tokens["x"].expires == at_ms


@pytest.mark.parametrize(
    ("key", "told"),
    [
        (r"a\fb", r"a\x0cb"),
        (r"a\nb", r"a\nb"),
        (r"\u2028", r"\u2028"),
        (r"\u001b[31m", r"\x1b[31m"),
    ],
    ids=["a form feed", "a line break", "a line separator", "a colour"],
)
def test_a_mistake_is_told_in_one_line_whatever_its_name_has(key: str, told: str) -> None:
    """Found by fuzzing. A terminal would also have done what a name tells it to."""
    with pytest.raises(OperatorError) as error:
        parse_families(f'[families.x]\n"{key}" = 1\n')
    assert str(error.value).startswith(f"tally.toml:2: families.x.{told}: unknown")
    assert len(str(error.value).splitlines()) == 1
