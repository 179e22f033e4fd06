"""A client of a ClickHouse cluster that is used like one of a single server.

The pipeline's statements know nothing of clusters. Here they are said anew on their way out
(schemas/cluster_sql.py), and the settings that make an insert last are given along.
"""

from __future__ import annotations

from functools import wraps
from typing import TYPE_CHECKING, Any

from schemas.cluster_sql import cluster_statements

if TYPE_CHECKING:
    from collections.abc import Callable

    from clickhouse_connect.driver import Client

_ONE_ANSWER = ("query", "query_arrow")
_QUORUM_TIMEOUT_MS = 20_000
"""Less than a client waits for its answer, so that it hears why."""


def cluster_settings(quorum: int) -> dict[str, Any]:
    """What every statement is run with.

    Confirmed means stored on `quorum` replicas of the shard, not handed to a queue. Writing a row
    twice changes nothing, so blocks need not be told apart; a repeated one must be written, since
    that is how it is found out whether a table takes anything.
    """
    return {
        "distributed_foreground_insert": 1,
        "insert_quorum": quorum,
        "insert_quorum_timeout": _QUORUM_TIMEOUT_MS,
        "insert_deduplicate": 0,
        "distributed_product_mode": "global",
        "distributed_ddl_task_timeout": 60,
    }


def for_cluster(client: Client, cluster: str) -> Client:
    """The client, whose statements are for the cluster from now on.

    A command may become several, run one after another; its answer is the last one's. Each is
    written to be repeatable, so one that fails between two of them is run again as a whole.
    """
    _wrap(client, "command", lambda run: _all_of(run, cluster))
    for name in _ONE_ANSWER:
        _wrap(client, name, lambda run: _one_of(run, cluster))
    return client


def _wrap(client: Client, name: str, wrapper: Callable[[Any], Any]) -> None:
    setattr(client, name, wrapper(getattr(client, name)))


def _all_of(run: Callable[..., Any], cluster: str) -> Callable[..., Any]:
    @wraps(run)
    def command(cmd: str, *arguments: Any, **named: Any) -> Any:
        answer = None
        for statement in cluster_statements(cmd, cluster):
            answer = run(statement, *arguments, **named)
        return answer

    return command


def _one_of(run: Callable[..., Any], cluster: str) -> Callable[..., Any]:
    @wraps(run)
    def query(text: str, *arguments: Any, **named: Any) -> Any:
        (statement,) = cluster_statements(text, cluster)
        return run(statement, *arguments, **named)

    return query
