"""The targets by name, and what a target is."""

from __future__ import annotations

import importlib
from typing import Protocol, cast

TARGETS = (
    "adjustments",
    "backups",
    "changelog",
    "clickhouse_bodies",
    "clickhouse_door",
    "clickhouse_requests",
    "control_records",
    "dead_letters",
    "frames",
    "handovers",
    "json_events",
    "jwts",
    "kafka_requests",
    "kafka_socket",
    "load_reports",
    "log_segments",
    "metrics_door",
    "produce_lines",
    "record_batches",
    "rules_records",
    "shard_plan",
    "sketch_bloom",
    "sketch_distinct",
    "sketch_frequency",
    "sketch_heavy",
    "sketch_morris",
    "strict_changelog",
    "strict_commands",
    "tally_toml",
    "token_file",
    "web_api",
    "web_connection",
)

BY_SOCKET = ("clickhouse_door", "kafka_socket")
"""Their doors are in another process, where coverage ends: nothing tells which input reaches
further than another, so a run has none to keep, and they begin with their seeds alone."""


class Target(Protocol):
    """A module of this package. Any exception of `check` is a finding."""

    PROMISE: str

    def seeds(self) -> list[bytes]: ...

    def check(self, data: bytes) -> None: ...


def load(name: str) -> Target:
    """The target of a name in TARGETS."""
    return cast("Target", importlib.import_module(f"tests.fuzz.{name}"))
