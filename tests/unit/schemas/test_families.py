import json
from pathlib import Path

import pytest

from pipeline.errors import OperatorError
from schemas.families import Families, load_families, parse_families

DAY_MS = 86_400_000

EXAMPLE = """
[default]
lateness = "2d"
distinct = { error = 0.05 }

[families.hashtag]
kind = "sketched"
shards = "adaptive"
distinct.grains = ["1d", "1m", "1d"]

[families.hashtag.retention]
"1m" = "36h"
"1d" = "forever"

[families."#odd"]
ids = { horizon = "10m", limit = 5 }
"""


def test_without_a_file_every_family_has_the_defaults() -> None:
    families = load_families(None)
    family = families.for_counter("likes:post-42")
    assert (family.kind, family.shards, family.read_mode) == ("exact", 1, "cached")
    assert (family.lateness_ms, family.ids.horizon_ms) == (DAY_MS, DAY_MS)
    assert family.distinct.grains == ["1h", "1d"]


def test_a_family_takes_what_it_leaves_out_from_the_default(tmp_path: Path) -> None:
    path = tmp_path / "tally.toml"
    path.write_text(EXAMPLE)
    families = load_families(path)
    hashtag = families.for_counter("hashtag:#cats:and:dogs")
    assert (hashtag.kind, hashtag.shards, hashtag.lateness_ms) == (
        "sketched",
        "adaptive",
        2 * DAY_MS,
    )
    assert (hashtag.distinct.error, hashtag.distinct.grains) == (0.05, ["1m", "1d"])
    assert hashtag.retention.minute_ms == 36 * 3_600_000
    assert hashtag.retention.hour_ms == 90 * DAY_MS
    assert hashtag.retention.day_ms is None
    assert families.for_counter("#odd:x").ids.limit == 5
    assert families.for_counter("likes:x") == families.default


MISTAKES = [
    ('[default]\nlatenes = "2d"', 2, "default.latenes: unknown; did you mean lateness?"),
    ("[default]\n\n# why\nshards = 0", 4,
     'default.shards: expected a number from 1 to 4096, or "adaptive"'),
    ('[families.a]\nkind = "exat"', 2, "families.a.kind: expected 'exact', 'sketched' or 'strict'"),
    ("[families.a]\n[families.b]\nregions = 1", 3, "families.b.regions: expected a valid boolean"),
    ("[families.a]\ntrends = { k = 5, min_cont = 3 }", 2,
     "families.a.trends.min_cont: unknown; did you mean min_count?"),
    ("[families.a.trends]\nenabled = true\nk = 0", 3,
     "families.a.trends.k: expected greater than or equal to 1"),
    ("[families.'a.b']\n[families.a]\n[families.'a.b'.ids]\nlimit = 0", 4,
     "families.a.b.ids.limit: expected greater than or equal to 1"),
    ("[default]\ndistinct.error = nan", 2, "default.distinct.error: expected a finite number"),
    ('[default]\nlateness = "2 days"', 2,
     'default.lateness: expected a duration such as "30s", "10m", "24h" or "7d"'),
    ('[default]\nlateness = "0s"', 2,
     "default.lateness: expected a duration above 0 and up to 36500d"),
    ("[default.retention]\n'1w' = '5d'", 2,
     "default.retention.1w: unknown; known here: 1d, 1h, 1m"),
    ("[famlies.a]", 1, "famlies: unknown; did you mean families?"),
    ("zzz = 1", 1, "zzz: unknown; known here: default, families"),
    ("[families]\na = 3", 2, "families.a: expected a table"),
    ('[families."a:b"]', 1, "families.a:b: a family's name is 1 to 255 bytes without ':'"),
    ("[default]\nkind = 'exact\n", 2, "not TOML: "),
    ("[default]\n\n= 1\nkind = 'exact'", 3, "not TOML: "),
]  # fmt: skip


@pytest.mark.parametrize(("text", "line", "message"), MISTAKES)
def test_a_mistake_is_told_with_file_line_and_field(text: str, line: int, message: str) -> None:
    with pytest.raises(OperatorError) as refused:
        parse_families(text, "conf/tally.toml")
    assert str(refused.value).startswith(f"conf/tally.toml:{line}: {message}")
    assert "\n" not in str(refused.value)


def test_a_file_that_is_away_is_named(tmp_path: Path) -> None:
    with pytest.raises(OperatorError, match=r"nowhere\.toml: cannot be read: No such file"):
        load_families(tmp_path / "nowhere.toml")


def test_equal_counting_rules_have_equal_texts_however_they_are_written() -> None:
    one = parse_families(
        '[default]\nlateness = "24h"\n[families.a]\ndistinct.grains = ["1d", "1h"]'
    )
    assert one.canonical_json() == Families().canonical_json()
    assert one.rules_hash == Families().rules_hash
    assert json.loads(one.canonical_json())["families"] == {}


def test_what_does_not_change_counting_does_not_change_the_hash() -> None:
    text = '[families.a]\nshards = 8\nread_mode = "live"\nretention."1m" = "1h"'
    assert parse_families(text).rules_hash == Families().rules_hash


@pytest.mark.parametrize(
    "rule",
    ['kind = "strict"', 'lateness = "1h"', "regions = false", "ids.limit = 5", "trends.k = 5"],
)
def test_what_changes_counting_changes_the_hash(rule: str) -> None:
    hashes = {
        parse_families(f"[{table}]\n{rule}").rules_hash for table in ("default", "families.a")
    }
    assert len(hashes | {Families().rules_hash}) == 3


def test_the_hash_of_the_default_rules_stays_as_it_is_in_logs() -> None:
    assert (
        Families().rules_hash == "143433673dba3e949904d8501a04c9088a0cb09a6759a999a88a04074de097c5"
    )
