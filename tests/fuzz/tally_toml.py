"""The text of `tally.toml`."""

from __future__ import annotations

from pipeline.errors import OperatorError
from pipeline.rules import counting_rules, parse_rules
from schemas.families import parse_families

PROMISE = "rules that the log can hold, or one line with file, line and field"


def seeds() -> list[bytes]:
    return [
        b"",
        b"ids_per_partition = 1000\n[default]\nkind = 'exact'\nlateness = '1d'\n",
        b'[families.hashtag]\nlateness = "2h"\ndistinct = { error = 0.02, grains = ["1h"] }\n',
        b'[families."a b"]\nretention = { "1m" = "7d", "1d" = "forever" }\nshards = "adaptive"\n',
        b"[families.x.trends]\nk = 5\nmin_score = 7.5\n",
        b"[families.y]\nkind = 'strict'\nstrict = { limit = 5, per = '1m', ids_kept = 1000 }\n",
        b"[families.x]\nonce_per = 'member'\nonce_per_error = 0.001\nsketch = { keys = 7 }\n",
        b"note = '''\n\"\\q\" = 1\n'''\n[default]\nkinds = 'exact'\n",
        b"a = 1979-05-27T07:32:00Z\nb = [[1], [{c = 0x1F}]]\n[[d]]\n",
        b"[default]\nkind = " + b"[" * 200 + b"]" * 200,
        b"ids_per_partition = " + b"9" * 5000,
        # Found: the line break was in the error.
        b'[families."a\\fb:"]\n"c\\u2028" = 1\n',
    ]


def check(data: bytes) -> None:
    try:
        families = parse_families(data.decode("utf-8", "replace"))
    except OperatorError as error:
        _is_one_line(str(error), "tally.toml:")
        return
    rules = counting_rules(families)
    assert parse_rules(rules.bytes) == rules


def _is_one_line(sentence: str, beginning: str) -> None:
    assert sentence.startswith(beginning)
    assert len(sentence.splitlines()) == 1
