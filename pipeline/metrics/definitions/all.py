"""All metrics together, by what they are about: for the documentation, and for tests."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipeline.metrics.definitions.clickhouse import CLICKHOUSE
from pipeline.metrics.definitions.log import LOG
from pipeline.metrics.definitions.pipeline import PIPELINE
from pipeline.metrics.definitions.web import WEB
from pipeline.metrics.definitions.worker import WORKER

if TYPE_CHECKING:
    from pipeline.metrics.definition import AnyDefinition

BY_PROCESS: dict[str, tuple[AnyDefinition, ...]] = {
    "worker": WORKER,
    "pipeline": PIPELINE,
    "web": WEB,
    "log": LOG,
    "clickhouse": CLICKHOUSE,
}

ALL: tuple[AnyDefinition, ...] = tuple(one for each in BY_PROCESS.values() for one in each)
