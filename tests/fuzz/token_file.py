"""The text of a token file."""

from __future__ import annotations

from pipeline.access.granting import known_of
from pipeline.errors import OperatorError
from schemas.tokens import parse_tokens

PROMISE = "tokens, or one line with file, line and field that repeats no hash"

HASH = "sha256:" + "ab" * 32


def seeds() -> list[bytes]:
    one = f'[tokens.dashboard]\nhash = "{HASH}"\nread = ["*"]\n'
    return [
        b"",
        one.encode(),
        f"{one}write = ['likes']\nadmin = []\nrate = 100\nexpires = 2027-01-31T00:00:00Z".encode(),
        f'{one}expires = "2027-01-31T00:00:00+01:00"'.encode(),
        f"{one}expires = 9999-12-31T23:59:59.999999-23:59".encode(),
        f"{one}expires = 0001-01-01T00:00:00+23:59".encode(),
        f"{one}[tokens.other]\nhash = '{HASH}'\n".encode(),
        f"{one}rate = inf\n".encode(),
        f"[tokens]\nx = {{ hash = '{HASH}', raed = [''] }}\n".encode(),
    ]


def check(data: bytes) -> None:
    text = data.decode("utf-8", "replace")
    try:
        table = parse_tokens(text)
    except OperatorError as error:
        sentence = str(error)
        assert sentence.startswith("tokens.toml:")
        assert len(sentence.splitlines()) == 1
        assert HASH.removeprefix("sha256:") not in sentence
        return
    for known in known_of(table):
        assert len(known.digest) == 32
