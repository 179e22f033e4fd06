"""Run by test_cluster.py in a process of its own: the engine with a cluster in its configuration.

    replicated    every statement as it is, with the engine's own stand-in for Keeper; no rows
    distributed   plain engines under the Distributed tables: one shard, which is this engine
    spread        Merge instead of Distributed, over two databases that stand for two shards
    single        the same questions to the tables of one server

What replicas and servers do among each other is not tried. Prints one JSON document.
"""

import json
import os
import re
import signal
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from chdb.session import Session

from schemas.cluster_sql import cluster_statements
from schemas.migrate import all_statements

CONFIG = """<clickhouse>
  <tcp_port>9000</tcp_port>
  <zookeeper><implementation>testkeeper</implementation></zookeeper>
  <macros><shard>1</shard><replica>r1</replica></macros>
  <remote_servers><prod><shard><replica>
    <host>127.0.0.1</host><port>9000</port>
  </replica></shard></prod></remote_servers>
</clickhouse>"""

CELLS = """INSERT INTO {} (build, counter, window, region, slot, replica, shard, p, n, through)
SELECT 1, concat('likes:post-', toString(number % 50)) AS counter, toDateTime({}) AS minute, 'eu',
    minute, 'main', intDiv(number, 50), 1 + number, number % 3, number
FROM numbers(200) WHERE {} SETTINGS distributed_foreground_insert = 1"""

QUESTIONS = {
    "totals": "SELECT counter, total FROM tally.totals ORDER BY counter",
    "minutes": "SELECT counter, count FROM tally.counts_1m ORDER BY counter",
    "regions": "SELECT counter, region, count FROM tally.counts_by_region_1h ORDER BY counter",
    "top": "SELECT rank, counter, count FROM tally.top_last_hour WHERE region = '*' ORDER BY rank",
    "newest": "SELECT count() FROM tally.top_1m WHERE region = '*'",
    "final": "SELECT counter, sum(p) FROM tally.cells_1m FINAL GROUP BY counter ORDER BY counter",
}

ENGINES = "SELECT engine, count() FROM system.tables WHERE database LIKE 'tally%' GROUP BY engine"
PARTS = (
    "SELECT sum(rows) FROM system.parts WHERE database = 'tally' AND table = 'cells_1m' AND active"
)
PARTITIONED = (
    "SELECT name FROM system.tables WHERE database = 'tally' AND match(partition_key, '^[(]?build')"
    " ORDER BY name"
)
DROP = "ALTER TABLE tally.cells_1m DROP PARTITION (1, '{}')"
SHARDS = ("shard1", "shard2")

Run = Callable[[str], list[list[str]]]


def on_this_engine(statement: str) -> list[str]:
    """What is said to the cluster, without what asks other servers to do it, too."""
    made = cluster_statements(statement, "prod")
    return [one.replace(" ON CLUSTER 'prod'", "") for one in made]


def unreplicated(text: str) -> str:
    return re.sub(r"Replicated(\w*MergeTree)\('[^']*', '[^']*'(?:, )?", r"\1(", text)


def over_two(text: str) -> list[str]:
    """The statement with each shard's table in a database of its own."""
    text = re.sub(
        r"Distributed\('prod', 'tally_local', '(\w+)', .*\)",
        r"Merge(REGEXP('^shard[12]$'), '^\1$')",
        text.replace("AS tally_local.", "AS shard1."),
    )
    if text.startswith("CREATE DATABASE IF NOT EXISTS tally_local"):
        return [text, *(f"CREATE DATABASE {shard}" for shard in SHARDS)]
    if "tally_local." not in text or "VIEW tally_local" in text.split(" AS")[0].replace(
        "MATERIALIZED VIEW", ""
    ):
        return [text]
    return [text.replace("tally_local.", f"{shard}.") for shard in SHARDS]


def answers(run: Run) -> dict[str, object]:
    return {name: run(question) for name, question in QUESTIONS.items()}


def replicated(run: Run) -> dict[str, object]:
    for statement in all_statements():
        if not statement.startswith("INSERT"):
            for one in on_this_engine(statement):
                # With that stand-in replicated tables take nothing; the other modes do it.
                run(f"EXPLAIN AST {one}" if one.startswith("ALTER") else one)
    return {engine: int(count) for engine, count in run(ENGINES)}


def single(run: Run) -> dict[str, object]:
    for statement in all_statements():
        run(statement)
    insert(run, "tally.cells_1m", this_minute(run))
    return {**answers(run), "partitioned": [name for (name,) in run(PARTITIONED)]}


def distributed(run: Run) -> dict[str, object]:
    for statement in all_statements():
        for one in on_this_engine(statement):
            run(unreplicated(one))
    insert(run, "tally.cells_1m", this_minute(run))
    found = answers(run)
    ((found["stored"],),) = run("SELECT uniqExact(counter) FROM tally_local.cells_1m")
    (parts,) = on_this_engine(PARTS)
    ((found["parts"],),) = run(parts)
    (partitioned,) = on_this_engine(PARTITIONED)
    found["partitioned"] = [name for (name,) in run(partitioned)]
    ((day,),) = run("SELECT DISTINCT toDate(slot) FROM tally.cells_1m")
    for one in on_this_engine(DROP.format(day)):
        run(one)
    ((found["dropped"],),) = run("SELECT count() FROM tally.cells_1m")
    return found


def spread(run: Run) -> dict[str, object]:
    for statement in all_statements():
        for made in on_this_engine(statement):
            for one in over_two(unreplicated(made)):
                run(one)
    minute = this_minute(run)
    for number, shard in enumerate(SHARDS):
        insert(run, f"{shard}.cells_1m", minute, f"cityHash64(counter) % 2 = {number}")
    found = answers(run)
    found["stored"] = [run(f"SELECT uniqExact(counter) FROM {one}.cells_1m") for one in SHARDS]
    return found


def this_minute(run: Run) -> str:
    """Asked for once: cells of two minutes would be other cells, and no retry."""
    ((minute,),) = run("SELECT toUnixTimestamp(toStartOfMinute(now()))")
    return minute


def insert(run: Run, table: str, minute: str, where: str = "1") -> None:
    """Twice, as a retry would: nothing may count twice."""
    for _ in range(2):
        run(CELLS.format(table, minute, where))


MODES = {one.__name__: one for one in (replicated, single, distributed, spread)}


def main(folder: Path, mode: str) -> None:
    config = folder / "config.xml"
    config.write_text(CONFIG)
    session: Any = Session(f"{folder / mode}?config-file={config}")  # type: ignore[no-untyped-call]

    def run(statement: str) -> list[list[str]]:
        answer: str = session.query(statement, "TSV").bytes().decode()
        return [line.split("\t") for line in answer.splitlines()]

    try:
        print(json.dumps(MODES[mode](run)), flush=True)
    except Exception:
        traceback.print_exc()
    # The engine's stand-in for Keeper lets neither the session nor the process end.
    os.kill(os.getpid(), signal.SIGKILL)


main(Path(sys.argv[1]), sys.argv[2])
