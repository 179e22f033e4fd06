"""`tally exchange` as people run it, and what the other side's status says of it."""

from datetime import date

import pytest

from pipeline.clock import SystemClock
from pipeline.reads.reads import Reads
from pipeline.reads.senders import senders
from tests.integration.exchange.site import Cluster, assert_totals
from tests.integration.rollup.site import Cell, seconds
from tests.kit.tally import RunningTally

Two = tuple[Cluster, Cluster]

NOON_S = seconds(date(2026, 11, 10), 12)
NOBODY = "127.0.0.1:1"


def tally_of(cluster: Cluster) -> RunningTally:
    """Commands of a cluster; the exchange needs no Kafka."""
    return RunningTally(NOBODY, cluster.door.url)


def test_a_pass_tells_its_rows_and_how_far_behind_it_is(clusters: Two) -> None:
    here, there = clusters
    here.site.flush([(Cell("likes:1", "eu", NOON_S, NOON_S, 0), 5, 1)])
    here.site.flush_positions({0: NOON_S + 60, 1: NOON_S})
    to = ("exchange", "--to", there.door.url, "--once")
    told = tally_of(here).json(*to)
    behind_ms = SystemClock().now_ms() - NOON_S * 1000
    assert (told["cluster"], told["build"], told["declared"]) == (here.identity, 1, True)
    # A cell, and a row of newest_windows.
    assert told["rows"] == 2
    assert 0 <= behind_ms - told["behind_ms"] < 600_000
    assert tally_of(here).run(*to).stdout.startswith("0 rows, ")
    assert_totals(there, here)
    [sender] = senders(Reads(there.site.client, SystemClock()))
    assert (sender.cluster, sender.source_build) == (here.identity, 1)
    assert sender.behind_ms is not None
    assert abs(sender.behind_ms - behind_ms) < 600_000


def test_a_new_identity_is_told_and_a_cluster_forgotten(clusters: Two) -> None:
    here, there = clusters
    here.site.flush([(Cell("likes:1", "eu", NOON_S, NOON_S, 0), 5, 1)])
    sent = tally_of(here).json("exchange", "--to", there.door.url, "--once")
    made = tally_of(here).json("exchange", "--new-identity")
    assert made == {"identity": here.identity}
    assert made["identity"] != sent["cluster"]
    tally_of(here).run("exchange", "--to", there.door.url, "--once")
    assert there.site.totals() == {"likes:1": 8}, "it is there under both identities"
    tally_of(there).run("exchange", "--forget", sent["cluster"])
    assert there.site.totals() == {"likes:1": 4}
    assert [one.cluster for one in senders(Reads(there.site.client, SystemClock()))] == [
        here.identity
    ]


def test_a_target_that_was_not_migrated_is_told_so(clusters: Two) -> None:
    here, there = clusters
    there.site.client.command("DROP DATABASE tally SYNC")
    failed = tally_of(here).run("exchange", "--to", there.door.url, "--once", code=1)
    assert "run tally migrate with TALLY_CLICKHOUSE=" in failed.stderr
    tally_of(there).run("migrate")
    identities = there.rows("SELECT identity FROM tally.identity")
    assert len(identities) == 1
    tally_of(here).run("exchange", "--to", there.door.url, "--once")
    assert there.rows("SELECT identity FROM tally.identity") == identities


def test_nobody_at_the_address_is_one_line_without_the_password(clusters: Two) -> None:
    here, _ = clusters
    url = f"http://somebody:secret@{NOBODY}"
    failed = tally_of(here).run("exchange", "--to", url, "--once", code=1)
    assert f"ClickHouse at http://{NOBODY} does not answer" in failed.stderr
    assert "secret" not in failed.stdout + failed.stderr


@pytest.mark.parametrize(
    "arguments",
    [(), ("--to", "nowhere"), ("--to", "http://a:1", "--new-identity"), ("--to", "ftp://s:s@a")],
)
def test_wrong_usage_ends_with_2(arguments: tuple[str, ...]) -> None:
    failed = RunningTally(NOBODY, f"http://{NOBODY}").run("exchange", *arguments, code=2)
    assert failed.stderr.count("\n") == 1
    assert "s:s" not in failed.stderr
