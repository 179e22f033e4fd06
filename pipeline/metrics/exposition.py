"""Metrics as a scrape reads them: Prometheus's text, or OpenMetrics if it is asked for."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from prometheus_client.exposition import choose_encoder

if TYPE_CHECKING:
    from pipeline.metrics.values import Metrics


_VERSION = re.compile(r"[0-9]{1,4}(\.[0-9]{1,4}){0,3}")


class Exposition(NamedTuple):
    """An answer to a scrape."""

    content_type: str
    body: bytes


def exposition(metrics: Metrics, accept: str = "") -> Exposition:
    """All metrics now, in the format that the header `Accept` asks for, or else as plain text.

    Takes milliseconds, and as long as its collectors wait at most; never raises.
    """
    # The library compares versions with its own whatever they are, and repeats them in its answer.
    kinds = [kind for kind in accept.split(",") if _has_a_version_or_none(kind)]
    encode, content_type = choose_encoder(",".join(kinds))
    return Exposition(content_type, encode(metrics.registry))


def _has_a_version_or_none(kind: str) -> bool:
    parts = [part.strip().partition("=") for part in kind.split(";")]
    return all(_VERSION.fullmatch(value) for name, _, value in parts if name == "version")
