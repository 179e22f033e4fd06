"""Random events of every sort, with every server killed in between: every number equals the truth.

Skewed counters, removals, late and early events, duplicate ids, bad records, JSON and frames; an
exact and a sketched family; two workers, heartbeats, rollups and trends running.
"""

import random
from pathlib import Path

import pytest

from tests.integration.complete.comparison import SKETCHED, compare
from tests.integration.complete.site import WORKERS, Site, running_site
from tests.integration.worker.stream import Stream
from tests.kit.kafka import require_kafka

KINDS = ["embedded", pytest.param("kafka", marks=pytest.mark.kafka)]
BETWEEN_KILLS = (20, 120)
"""How many messages, at least and below."""


@pytest.mark.timeout(300)
@pytest.mark.parametrize("kind", KINDS)
def test_every_number_equals_the_truth_with_every_server_killed_once(
    kind: str, tmp_path: Path
) -> None:
    prove(kind, tmp_path, worker=2, log=1, clickhouse=1)


@pytest.mark.prove
@pytest.mark.timeout(3000)
@pytest.mark.parametrize("kind", KINDS)
def test_every_number_equals_the_truth_after_45_kills(kind: str, tmp_path: Path) -> None:
    prove(kind, tmp_path, worker=25, log=10, clickhouse=10)


def prove(kind: str, folder: Path, **kills: int) -> None:
    if kind == "kafka":
        require_kafka()
    seed = random.SystemRandom().randrange(1 << 32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    victims = [name for name, count in kills.items() for _ in range(count)]
    chance.shuffle(victims)
    with (
        running_site(kind, folder) as site,
        Stream(site.tally.kafka, "all", seed) as stream,
        Stream(site.tally.kafka, SKETCHED, seed + 1) as sketched,
    ):
        for victim in victims:
            stream.wait_for_more(chance.randrange(*BETWEEN_KILLS), timeout_s=60)
            kill(site, victim, chance)
        stream.wait_for_more(BETWEEN_KILLS[1], timeout_s=60)
        stream.finish()
        sketched.finish()
        site.settle()
        compare(site.tally, [stream, sketched])


def kill(site: Site, victim: str, chance: random.Random) -> None:
    if victim == "worker":
        site.kill_worker(chance.randrange(WORKERS))
    elif victim == "log":
        site.kill_log()
    else:
        site.kill_clickhouse()
