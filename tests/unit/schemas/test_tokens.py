"""The token file's text: what it may say, and where a mistake is reported."""

import pytest

from pipeline.errors import OperatorError
from schemas.tokens import parse_tokens

HASH = "sha256:" + "ab" * 32
OTHER = "sha256:" + "cd" * 32


def test_all_fields_are_read() -> None:
    table = parse_tokens(
        f'[tokens.a-1]\nhash = "{HASH}"\nread = ["*"]\nwrite = ["likes"]\nadmin = ["ünï"]\n'
        f'rate = 5\nexpires = "2027-01-31T00:00:00+01:00"\n'
        f'[tokens.b_2]\nhash = "{OTHER}"\nexpires = 2027-01-31T00:00:00+01:00\n'
    ).tokens
    assert table["a-1"].digest == b"\xab" * 32
    assert (table["a-1"].read, table["a-1"].write) == (["*"], ["likes"])
    assert (table["a-1"].admin, table["a-1"].rate) == (["ünï"], 5)
    assert table["a-1"].expires == table["b_2"].expires == 1_801_350_000_000
    assert (table["b_2"].read, table["b_2"].rate) == ([], None)
    assert HASH not in repr(table)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[tokens.a\n", "t.toml:1: not TOML"),
        ("\n[tokens.a]\n", "t.toml:2: tokens.a: it has no hash"),
        ("token = 1\n", "t.toml:1: token: unknown; did you mean tokens?"),
        ("tokens = 1\n", "t.toml:1: tokens: expected a"),
        (f'[tokens.a]\nhash = "{HASH[:-1]}"\n', "t.toml:2: tokens.a.hash: expected"),
        (f'[tokens.a]\nhash = "{HASH.upper()}"\n', "t.toml:2: tokens.a.hash: expected"),
        (f'[tokens.a]\nhash = "{HASH}"\nreed = []\n', "t.toml:3: tokens.a.reed: unknown; did you"),
        (f'[tokens.a]\nhash = "{HASH}"\nread = "*"\n', "t.toml:3: tokens.a.read: expected a"),
        (f'[tokens.a]\nhash = "{HASH}"\nread = ["a:b"]\n', "t.toml:3: tokens.a.read: expected fam"),
        (f'[tokens.a]\nhash = "{HASH}"\nrate = -1\n', "t.toml:3: tokens.a.rate: expected greater"),
        (f'[tokens.a]\nhash = "{HASH}"\nrate = nan\n', "t.toml:3: tokens.a.rate: expected"),
        (
            f'[tokens.a]\nhash = "{HASH}"\nexpires = "soon"\n',
            "t.toml:3: tokens.a.expires: expected",
        ),
        (f'[tokens.a]\nhash = "{HASH}"\nexpires = 2027-01-31\n', "t.toml:3: tokens.a.expires: exp"),
        (f'[tokens."a b"]\nhash = "{HASH}"\n', "t.toml:1: tokens.a b: a token's name"),
        (
            f'[tokens.a]\nhash="{HASH}"\n[tokens.b]\nhash="{HASH}"\n',
            "t.toml:4: tokens.b.hash: the same",
        ),
    ],
)
def test_a_mistake_is_reported_with_file_line_and_field(text: str, said: str) -> None:
    with pytest.raises(OperatorError) as refused:
        parse_tokens(text, "t.toml")
    assert said in str(refused.value)
    assert HASH not in str(refused.value)
