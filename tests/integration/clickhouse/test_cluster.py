"""The DDL of a cluster in the engine itself: it is taken, and spread tables answer as one would.

No real cluster is run: servers, Keeper and a network are not here. docs/deploy.md says so.
"""

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from schemas.cluster_sql import SPREAD


def engine(folder: Path, mode: str) -> Any:
    """What the engine says in a process of its own: it can be configured once in a process."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.integration.clickhouse.cluster_engine", str(folder), mode],
        check=False,
        capture_output=True,
        text=True,
        timeout=110,
        cwd=Path(__file__).parents[3],
    )
    assert done.stdout, done.stderr[-3000:]
    return json.loads(done.stdout)


def test_the_engine_takes_every_statement_of_a_cluster(tmp_path: Path) -> None:
    engines = engine(tmp_path, "replicated")
    assert engines["Distributed"] == len(SPREAD)
    assert engines["ReplicatedAggregatingMergeTree"] > len(SPREAD) // 2
    assert not [name for name in engines if name.endswith("MergeTree") and name[0] != "R"]


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("engines")
    return {mode: engine(folder, mode) for mode in ("single", "distributed", "spread")}


def test_distributed_tables_answer_as_those_of_one_server_do(answers: dict[str, Any]) -> None:
    found = dict(answers["distributed"])
    assert found.pop("stored") == "50"
    assert int(found.pop("parts")) >= 200
    assert found.pop("dropped") == "0"
    assert found == answers["single"]


def test_two_shards_answer_as_one_server_does(answers: dict[str, Any]) -> None:
    found = dict(answers["spread"])
    shares = [int(rows[0][0]) for rows in found.pop("stored")]
    assert sum(shares) == 50
    assert min(shares) > 10
    assert found == {name: answers["single"][name] for name in found}


def test_the_answers_are_right(answers: dict[str, Any]) -> None:
    truth: Counter[str] = Counter()
    for number in range(200):
        truth[f"likes:post-{number % 50}"] += 1 + number - number % 3
    assert {name: int(total) for name, total in answers["single"]["totals"]} == truth
    assert [name for _, name, _ in answers["spread"]["top"]] == [
        name for name, _ in sorted(truth.items(), key=lambda one: (-one[1], one[0]))
    ]
