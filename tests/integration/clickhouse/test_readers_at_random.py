"""Texts that try to hide a file behind quotes and comments: what is let through never opens it.

Where the lexer and the engine disagree on where a quote or a comment ends, one of these gets past
the lexer; with comments that did not nest and `//` that began none, one in forty thousand did.
"""

import random
from pathlib import Path

import pytest

from pipeline.access.own import own_hash
from pipeline.access.tokens import digest_of, hash_text, new_token
from pipeline.embedded.clickhouse.errors import ClickHouseError
from pipeline.embedded.clickhouse.reading import Reading
from pipeline.embedded.clickhouse.request import parse_request
from pipeline.embedded.clickhouse.statement import parse
from tests.integration.clickhouse.process import ClickHouse

TEXTS = 50_000
CANARY = "canary-in-a-file"
QUOTES = ["'", '"', "`"]
# fmt: off
PIECES = [
    *QUOTES, "\\", "/*", "*/", "--", "//", "#", "# ", "#!", "$", "$$", "$a$", "\n", "\r", " ",
    "\x0b", ",", "(", ")", "{", "}", ":", "::", ";", "1", "0x", "1e", "a", "'a'", "''", "\\'",
    "x'", "b'", "\u2018", "\u2019", "\u201c", "\u201d", "\u00a0", "\u200b", "/", "*", "-", "+",
    "->", "@", ".", "?", "\\G",
]
# fmt: on


def hiding(dice: random.Random, file: Path) -> str:
    """A query in which the quote before `file(…)` may or may not be one."""
    quote = dice.choice(QUOTES)
    before = "".join(dice.choices(PIECES, k=dice.randint(0, 3)))
    between = "".join(dice.choices(PIECES, k=dice.randint(0, 3)))
    after = dice.choice(["", *PIECES]) + dice.choice(["--", "//", "# ", "/*", " "]) + quote
    link = dice.choice(["", " ", ", ", "+"])
    return f"SELECT {before}{quote}{between}{link}file('{file}'){after}{dice.choice(['', '*/'])}"


def passes(reading: Reading, sql: str) -> bool:
    try:
        reading.check(parse_request("POST", [], {}), parse(sql.encode(), 0))
    except ClickHouseError:
        return False
    return True


@pytest.mark.prove
@pytest.mark.timeout(1200)
def test_no_text_that_is_let_through_opens_a_file(tmp_path: Path) -> None:
    seed = random.SystemRandom().randrange(2**32)
    print(f"seed {seed}")
    dice, own, reader = random.Random(seed), new_token(), new_token()
    tokens, file = tmp_path / "tokens.toml", tmp_path / "f"
    tokens.write_text(f'[tokens.r]\nhash = "{hash_text(digest_of(reader))}"\nread = ["*"]\n')
    file.write_text(CANARY)
    options = ("--tokens", str(tokens))
    with ClickHouse(tmp_path / "data", *options, environment=own_hash(own)) as door:
        names = door.rows("SELECT name FROM system.table_functions", password=own).split()
        assert CANARY in door.rows(f"SELECT file('{file}')", password=own)
        reading, answered = Reading.of(names), 0
        for _ in range(TEXTS):
            sql = hiding(dice, file)
            if passes(reading, sql):
                reply = door.ask(sql, headers={"Authorization": f"Bearer {reader}"})
                assert CANARY not in reply.text, sql
                answered += reply.status == 200
    assert answered > TEXTS // 1000, "hardly any of them was a query"
