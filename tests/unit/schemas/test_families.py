from pathlib import Path

import pytest

from pipeline.errors import OperatorError
from schemas.families import load_families, parse_families
from schemas.rules import format_duration, parse_duration_ms

DAY_MS = 86_400_000

EXAMPLE = """
ids_per_partition = 5

[default]
lateness = "2d"
distinct = { error = 0.05 }

[families.hashtag]
kind = "exact"
shards = "adaptive"
cells_max = 9
distinct.grains = ["1d", "1m", "1d"]

[families.hashtag.retention]
"1m" = "36h"
"1d" = "forever"

[families."#odd"]
ids = { horizon = "10m" }
"""


def test_without_a_file_every_family_has_the_defaults() -> None:
    families = load_families(None)
    family = families.for_counter("likes:post-42")
    assert (family.kind, family.shards, family.read_mode) == ("exact", "adaptive", "cached")
    assert (family.lateness_ms, family.ids.horizon_ms) == (DAY_MS, DAY_MS)
    assert family.distinct.grains == ["1h", "1d"]


def test_a_family_takes_what_it_leaves_out_from_the_default(tmp_path: Path) -> None:
    path = tmp_path / "tally.toml"
    path.write_text(EXAMPLE)
    families = load_families(path)
    hashtag = families.for_counter("hashtag:#cats:and:dogs")
    assert (hashtag.shards, hashtag.cells_max, hashtag.lateness_ms) == ("adaptive", 9, 2 * DAY_MS)
    assert (hashtag.distinct.error, hashtag.distinct.grains) == (0.05, ["1m", "1d"])
    assert hashtag.retention.minute_ms == 36 * 3_600_000
    assert hashtag.retention.hour_ms == 90 * DAY_MS
    assert hashtag.retention.day_ms is None
    assert families.for_counter("#odd:x").ids.horizon_ms == 600_000
    assert families.ids_per_partition == 5
    assert families.for_counter("likes:x") == families.default


def test_a_family_sets_the_gates_of_its_trends_and_keeps_the_others() -> None:
    families = parse_families(
        "[default]\ntrends = { min_count = 10_000, min_regions = 3 }\n"
        "[families.bytes.trends]\nmin_uniques = 0\nmax_per_member = 0"
    )
    trends = families.for_counter("bytes:sent").trends
    assert (trends.min_count, trends.min_uniques) == (10_000, 0)
    assert (trends.max_per_member, trends.min_regions) == (0, 3)
    default = families.default.trends
    assert (default.min_uniques, default.max_per_member, default.min_regions) == (10, 5.0, 3)


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
    ("[families.a.trends]\nmin_uniques = -1", 2,
     "families.a.trends.min_uniques: expected greater than or equal to 0"),
    ("[default.trends]\nk = 3\nmax_per_member = -0.5", 3,
     "default.trends.max_per_member: expected greater than or equal to 0"),
    ("[default]\ntrends.min_regions = 0", 2,
     "default.trends.min_regions: expected greater than or equal to 1"),
    ("[default]\ntrends.min_regions = 1.5", 2,
     "default.trends.min_regions: expected a valid integer"),
    ("[families.'a.b']\n[families.a]\n[families.'a.b'.ids]\nhorizon = 0", 4,
     "families.a.b.ids.horizon: expected a duration such as"),
    ("ids_per_partition = 0", 1, "ids_per_partition: expected greater than or equal to 1"),
    ("[families.a]\nonce_per = 'person'", 2, "families.a.once_per: expected 'id' or 'member'"),
    ("[families.a]\nonce_per = 'member'\nonce_per_error = 0.5", 3,
     "families.a.once_per_error: expected 0, which is exact, or 0.000001 to 0.1"),
    ("[families.a]\n\ncells_max = 0", 3,
     "families.a.cells_max: expected greater than or equal to 1"),
    ('[families.a]\nkind = "strictly"', 2, "families.a.kind: expected 'exact'"),
    ('[families.a]\nstrict = { window = "hopping" }', 2,
     "families.a.strict.window: expected 'fixed' or 'sliding'"),
    ('[families.a]\nstrict = { per = "soon" }', 2,
     'families.a.strict.per: expected a duration such as "30s", "10m", "24h" or "7d"'),
    ("[families.a]\nstrict = { ids_kept = 5 }", 2,
     "families.a.strict.ids_kept: expected greater than or equal to 1000"),
    ("[families.a]\nstrict.limits = 5", 2, "families.a.strict.limits: unknown"),
    ("[default]\ndistinct.error = nan", 2, "default.distinct.error: expected a finite number"),
    ('[default]\nlateness = "2 days"', 2,
     'default.lateness: expected a duration such as "30s", "10m", "24h" or "7d"'),
    ('[default]\nlateness = "0s"', 2,
     "default.lateness: expected a duration above 0 and up to 36500d"),
    ("[default.retention]\n'1w' = '5d'", 2,
     "default.retention.1w: unknown; known here: 1d, 1h, 1m"),
    ("[famlies.a]", 1, "famlies: unknown; did you mean families?"),
    ("zzz = 1", 1, "zzz: unknown; known here: default, families, ids_per_partition"),
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


@pytest.mark.parametrize("text", ["30s", "10m", "24h", "7d", "90s", "36500d", "1s"])
def test_a_duration_is_written_as_it_was_read(text: str) -> None:
    duration_ms = parse_duration_ms(text)
    assert parse_duration_ms(format_duration(duration_ms)) == duration_ms
