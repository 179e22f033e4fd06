"""Metrics as a scrape reads them: Prometheus's text, or OpenMetrics if it is asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from prometheus_client.exposition import choose_encoder

if TYPE_CHECKING:
    from pipeline.metrics.values import Metrics


class Exposition(NamedTuple):
    """An answer to a scrape."""

    content_type: str
    body: bytes


def exposition(metrics: Metrics, accept: str = "") -> Exposition:
    """All metrics now, in the format that the header `Accept` asks for.

    Takes milliseconds, and as long as its collectors wait at most; never raises.
    """
    encode, content_type = choose_encoder(accept)
    return Exposition(content_type, encode(metrics.registry))
