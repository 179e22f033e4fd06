"""Statements for one ClickHouse server, said anew for a cluster of them. Pure.

A cluster has shards, and each shard replicas. What grows with events is **spread**: each shard has
its part in a table of the database `tally_local`, and `tally` has a Distributed table of the same
name over them, so that views, inserts and reads are the same as on one server. Everything else is
small and **everywhere**: one replicated table, of which every server of every shard is a replica.
So a subquery on it (which build is live?) is answered where it is asked.

Rows of one key are on one shard, since they go by what they count; there they merge.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

LOCAL = "tally_local"

_BY_COUNTER = "cityHash64(counter)"
_BY_BUCKET = "cityHash64(family, bucket)"
# fmt: off
SPREAD = {
    **dict.fromkeys(
        (
            "cells_1m", "cells_1h", "cells_1d", "cells_life", "distinct_1m", "distinct_1h",
            "distinct_1d", "heavy_1h", "heavy_1d", "trend_members",
        ),
        _BY_COUNTER,
    ),
    **dict.fromkeys(
        ("frequency_1m", "frequency_1h", "frequency_1d", "frequency_life"), _BY_BUCKET
    ),
    "heavy_1m": "cityHash64(family, region, replica, shard)",
}
# fmt: on
"""The tables that are spread over shards, each with what decides the shard of a row."""

_NAME = r"(?P<name>[A-Za-z0-9_]+)"
_DATABASE = re.compile(r"CREATE DATABASE IF NOT EXISTS tally\Z")
_FUNCTION = re.compile(rf"CREATE OR REPLACE FUNCTION {_NAME}\s")
_VIEW = re.compile(rf"CREATE OR REPLACE VIEW tally\.{_NAME}\s")
_FILLING = re.compile(rf"CREATE MATERIALIZED VIEW IF NOT EXISTS tally\.{_NAME} TO tally\.\w+\s")
_TABLE = re.compile(rf"CREATE TABLE IF NOT EXISTS tally\.{_NAME}\s")
_ENGINE = re.compile(r"ENGINE = (?P<engine>\w*MergeTree)(?:\((?P<arguments>[^()]*)\))?")
_COMMENT = re.compile(r"COMMENT '(?:[^'\\]|\\.|'')*'\s*\Z")
_FROM = re.compile(r"FROM tally\.(?P<name>\w+)")
_CHANGE = re.compile(rf"(?:ALTER TABLE|DELETE FROM) tally\.{_NAME}\s")
_SYSTEM = re.compile(r"\bsystem\.(parts|tables|mutations)\b")


def cluster_statements(statement: str, cluster: str) -> list[str]:
    """What does on the cluster what `statement` does on one server; often it is itself.

    Raises ValueError for a CREATE, ALTER, DROP or DELETE that it has no words for, so that a new
    migration cannot pass by unnoticed.
    """
    text = statement.strip()
    for pattern, made in _FORMS:
        if found := pattern.match(text):
            return made(found, cluster)
    if re.match(r"(CREATE|ALTER|DROP|DELETE|TRUNCATE|RENAME)\b", text, re.IGNORECASE):
        raise ValueError(f"no form for a cluster: {text[:80]}")
    return [_SYSTEM.sub(rf"{LOCAL}.\1", statement)]


def _on(cluster: str) -> str:
    return f" ON CLUSTER '{cluster}'"


def _databases(_: re.Match[str], cluster: str) -> list[str]:
    names = ("tally", LOCAL)
    made = [f"CREATE DATABASE IF NOT EXISTS {name}{_on(cluster)}" for name in names]
    return made + _system_views(cluster)


def _named(found: re.Match[str], cluster: str) -> list[str]:
    """A function or a view: of the cluster, and otherwise as it is."""
    at = found.end("name")
    return [found.string[:at] + _on(cluster) + found.string[at:]]


def _change(found: re.Match[str], cluster: str) -> list[str]:
    """What replicas of a table tell each other needs no more words."""
    name = found["name"]
    if name not in SPREAD:
        return [found.string]
    (changed,) = _named(found, cluster)
    return [changed.replace(f"tally.{name}", f"{LOCAL}.{name}", 1)]


def _filling(found: re.Match[str], cluster: str) -> list[str]:
    """A view that an insert fills: it must hang on the table that rows are stored in."""
    (text,) = _named(found, cluster)
    text = text.replace(f"tally.{found['name']}", f"{LOCAL}.{found['name']}", 1)

    def source(one: re.Match[str]) -> str:
        return f"FROM {LOCAL}.{one['name']}" if one["name"] in SPREAD else one[0]

    return [_FROM.sub(source, text)]


def _tables(found: re.Match[str], cluster: str) -> list[str]:
    name, text = found["name"], found.string
    engine = _ENGINE.search(text)
    if engine is None:
        raise ValueError(f"no engine that can be replicated: {text[:80]}")
    if name in SPREAD:
        place, replica = f"/clickhouse/tables/{{shard}}/{LOCAL}/{name}", "{replica}"
    else:
        place, replica = f"/clickhouse/tables/all/tally/{name}", "{shard}-{replica}"
    more = f", {engine['arguments']}" if engine["arguments"] else ""
    replicated = f"ENGINE = Replicated{engine['engine']}('{place}', '{replica}'{more})"
    text = text[: engine.start()] + replicated + text[engine.end() :]
    head, on = f"tally.{name}", _on(cluster)
    if name not in SPREAD:
        return [text.replace(head, head + on, 1)]
    local = f"{LOCAL}.{name}"
    comment = _COMMENT.search(text)
    over = (
        f"CREATE TABLE IF NOT EXISTS {head}{on} AS {local}\n"
        f"ENGINE = Distributed('{cluster}', '{LOCAL}', '{name}', {SPREAD[name]})"
    )
    return [
        text.replace(head, local + on, 1),
        over if comment is None else f"{over}\n{comment[0].strip()}",
    ]


def _system_views(cluster: str) -> list[str]:
    """What a server tells of its own tables, for the cluster: of each shard one replica's."""
    return [view.format(local=LOCAL, cluster=cluster, on=_on(cluster)) for view in _SYSTEM_VIEWS]


_TOLD = """CREATE OR REPLACE VIEW {{local}}.{0}{{on}} AS
SELECT * REPLACE ('tally' AS database) FROM
(SELECT * FROM cluster('{{cluster}}', system.{0}) WHERE database = '{{local}}')
UNION ALL
SELECT * FROM system.{0} WHERE database = 'tally' AND table NOT IN
(SELECT name FROM system.tables WHERE database = 'tally' AND engine = 'Distributed')"""
_TABLES_TOLD = """CREATE OR REPLACE VIEW {local}.tables{on} AS
SELECT * REPLACE ('tally' AS database) FROM
(SELECT * FROM system.tables WHERE database = '{local}' AND endsWith(engine, 'MergeTree'))
UNION ALL
SELECT * FROM system.tables WHERE database = 'tally' AND engine != 'Distributed'"""
_SYSTEM_VIEWS = (_TOLD.format("parts"), _TOLD.format("mutations"), _TABLES_TOLD)

_FORMS: tuple[tuple[re.Pattern[str], Callable[[re.Match[str], str], list[str]]], ...] = (
    (_DATABASE, _databases),
    (_FUNCTION, _named),
    (_VIEW, _named),
    (_FILLING, _filling),
    (_TABLE, _tables),
    (_CHANGE, _change),
)
