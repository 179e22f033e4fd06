"""A small Faust program: counts per key in a table, skipping what its table has already counted.

Run as `python -m tests.integration.log.faust_app worker`, with its settings in the environment.
"""

import json
import os
from typing import Any

import faust

app = faust.App(
    os.environ["FAUST_TEST_APP"],
    broker="kafka://" + os.environ["FAUST_TEST_BROKER"],
    store="memory://",
    datadir=os.environ["FAUST_TEST_DATA"],
    topic_partitions=2,
    topic_replication_factor=1,
    broker_commit_interval=0.2,
    broker_session_timeout=6,
    broker_heartbeat_interval=1,
    web_enabled=False,
)
source = app.topic(
    os.environ["FAUST_TEST_TOPIC"],
    key_type=bytes,
    value_type=bytes,
    key_serializer="raw",
    value_serializer="raw",
)
# Per key: how many, and the last offset counted in, as one text.
counts: Any = app.Table("counts", key_type=str, value_type=str, partitions=2)


def tell(moment: str) -> None:
    """Print the whole table in one piece, for Faust turns each piece into a line of its log."""
    table = {key: int(counts[key].split()[0]) for key in sorted(counts)}
    print(f"{moment} {json.dumps(table)}", flush=True)


@app.agent(source)
async def count(stream: Any) -> None:
    async for event in stream.events():
        key = event.key.decode()
        total, through = map(int, counts.get(key, "0 -1").split())
        if event.message.offset > through:
            counts[key] = f"{total + 1} {event.message.offset}"
            tell("counted")


@counts.on_recover  # type: ignore[untyped-decorator]  # a table has no useful type in Faust
async def recovered() -> None:
    tell("recovered")


if __name__ == "__main__":
    app.main()
