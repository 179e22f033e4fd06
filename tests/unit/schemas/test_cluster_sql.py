"""The DDL of a cluster, as text: all of it replicated, what grows distributed, none left out."""

import re

import pytest

from schemas.cluster_sql import SPREAD, cluster_statements
from schemas.migrate import all_statements

CLUSTER = "prod"
MADE = [made for one in all_statements() for made in cluster_statements(one, CLUSTER)]
CREATES = [made for made in MADE if made.startswith("CREATE")]
TABLES = [made for made in CREATES if made.startswith("CREATE TABLE")]


def table(name: str) -> str:
    (found,) = [made for made in TABLES if f"EXISTS {name} ON" in made]
    return found


def test_everything_that_is_made_is_made_on_the_cluster() -> None:
    assert len(CREATES) > 80
    for made in CREATES:
        assert made.count("ON CLUSTER 'prod'") == 1, made[:100]


def test_every_table_is_replicated_or_distributed() -> None:
    for made in TABLES:
        assert re.search(r"ENGINE = (Replicated\w*MergeTree\('|Distributed\('prod')", made), made


def test_replicas_of_one_table_have_one_path_and_no_two_tables_share_one() -> None:
    paths = [re.findall(r"'(/clickhouse/[^']*)', '([^']*)'", made) for made in TABLES]
    found = [one for some in paths for one in some]
    assert len(found) == len(TABLES) - len(SPREAD)
    assert len({path for path, _ in found}) == len(found)
    for path, replica in found:
        # Spread: replicas within a shard. Everywhere: every server of every shard is one.
        spread = path.startswith("/clickhouse/tables/{shard}/")
        assert replica == ("{replica}" if spread else "{shard}-{replica}")
        assert spread or path.startswith("/clickhouse/tables/all/")


@pytest.mark.parametrize("name", SPREAD)
def test_a_spread_table_is_a_replicated_one_and_a_distributed_one_over_it(name: str) -> None:
    assert "ENGINE = Replicated" in table(f"tally_local.{name}")
    over = table(f"tally.{name}")
    assert f"ENGINE = Distributed('prod', 'tally_local', '{name}', {SPREAD[name]})" in over


def test_tables_that_grow_with_events_are_spread_and_small_ones_are_not() -> None:
    grow = re.compile(r"tally(_local)?\.(cells|distinct|frequency|heavy)_(1m|1h|1d|life) ")
    for made in TABLES:
        if "ENGINE = Replicated" in made:
            local = "EXISTS tally_local." in made
            assert local == bool(grow.search(made) or "trend_members" in made), made[:100]


def test_arguments_of_an_engine_come_after_the_replicas() -> None:
    made = table("tally.refusals")
    path = "/clickhouse/tables/all/tally/refusals"
    assert f"ReplicatedReplacingMergeTree('{path}', '{{shard}}-{{replica}}', refused_at)" in made


def test_views_that_inserts_fill_hang_on_the_tables_that_store_rows() -> None:
    filling = [made for made in CREATES if "MATERIALIZED VIEW" in made]
    of_cells = next(made for made in filling if "newest_windows_of_cells" in made)
    assert "tally_local.newest_windows_of_cells ON CLUSTER 'prod' TO tally.newest_windows" in (
        of_cells
    )
    assert "FROM tally_local.cells_1m" in of_cells
    of_adjustments = next(made for made in filling if "newest_windows_of_adjustments" in made)
    assert "FROM tally.adjustments" in of_adjustments


@pytest.mark.parametrize(
    ("one_server", "cluster"),
    [
        (
            "ALTER TABLE tally.cells_1m DROP PARTITION (1, '2026-01-01')",
            "ALTER TABLE tally_local.cells_1m ON CLUSTER 'prod' DROP PARTITION (1, '2026-01-01')",
        ),
        (
            "DELETE FROM tally.frequency_widths WHERE build = 2",
            "DELETE FROM tally.frequency_widths WHERE build = 2",
        ),
        (
            "SELECT sum(rows) FROM system.parts WHERE database = 'tally'",
            "SELECT sum(rows) FROM tally_local.parts WHERE database = 'tally'",
        ),
        ("INSERT INTO tally.cells_1h SELECT 1", "INSERT INTO tally.cells_1h SELECT 1"),
        ("SELECT count FROM tally.counts_1m", "SELECT count FROM tally.counts_1m"),
    ],
)
def test_what_runs_later_is_said_for_the_cluster_where_it_must_be(
    one_server: str, cluster: str
) -> None:
    assert cluster_statements(one_server, CLUSTER) == [cluster]


@pytest.mark.parametrize("statement", ["CREATE DICTIONARY tally.x", "DROP TABLE tally.cells_1m"])
def test_a_statement_without_a_form_is_refused(statement: str) -> None:
    with pytest.raises(ValueError, match="no form for a cluster"):
        cluster_statements(statement, CLUSTER)
