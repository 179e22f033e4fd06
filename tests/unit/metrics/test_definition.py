"""What a definition refuses, and how labels are kept bounded."""

from typing import Any, Literal, NamedTuple

import pytest

from pipeline.metrics.definition import (
    NUMBERS_MAX,
    OPEN_VALUES_MAX,
    Counter,
    Gauge,
    Histogram,
    Unlabelled,
)
from pipeline.metrics.definitions.all import ALL
from pipeline.metrics.exposition import exposition
from pipeline.metrics.values import Metrics


class ByRoute(NamedTuple):
    route: str
    mode: Literal["cached", "exact"]


class ByShard(NamedTuple):
    shard: int


class ByCounter(NamedTuple):
    counter: str


REQUESTS = Counter("tally_test_requests_total", ByRoute, "Requests of a test.")
WAITING = Gauge("tally_test_waiting", Unlabelled, "What waits in a test.")
TOOK = Histogram("tally_test_seconds", Unlabelled, "How long a test took.", (0.1, 1.0))


def exposed(metrics: Metrics) -> dict[str, float]:
    lines = exposition(metrics).body.decode().splitlines()
    pairs = [line.rsplit(" ", 1) for line in lines if not line.startswith("#")]
    return {name: float(value) for name, value in pairs}


@pytest.mark.parametrize(
    ("make", "name", "labels", "meaning", "why"),
    [
        (Counter, "requests_total", Unlabelled, "A sentence.", "tally_"),
        (Counter, "tally_Requests_total", Unlabelled, "A sentence.", "lower case"),
        (Counter, "tally_requests", Unlabelled, "A sentence.", "ends with _total"),
        (Gauge, "tally_requests_total", Unlabelled, "A sentence.", "only a counter"),
        (Gauge, "tally_requests_count", Unlabelled, "A sentence.", "_count"),
        (Gauge, "tally_requests", Unlabelled, "no sentence", "one sentence"),
        (Gauge, "tally_requests", ByCounter, "A sentence.", "counter must not be a label"),
    ],
)
def test_a_definition_against_the_conventions_cannot_be_made(
    make: Any, name: str, labels: Any, meaning: str, why: str
) -> None:
    with pytest.raises(ValueError, match=why):
        make(name, labels, meaning)


@pytest.mark.parametrize(
    ("name", "buckets"),
    [("tally_test_waits", (1.0, 2.0)), ("tally_test_seconds", (2.0, 1.0)), ("tally_x_seconds", ())],
)
def test_a_histogram_needs_a_unit_and_growing_buckets(
    name: str, buckets: tuple[float, ...]
) -> None:
    with pytest.raises(ValueError, match=name):
        Histogram(name, Unlabelled, "A sentence.", buckets)


def test_an_unknown_label_is_an_error_where_it_is_written() -> None:
    with pytest.raises(TypeError, match="regoin"):
        REQUESTS(regoin="eu", mode="cached")  # type: ignore[call-arg]


def test_a_value_outside_of_a_closed_set_is_refused() -> None:
    metrics = Metrics([REQUESTS])
    with pytest.raises(ValueError, match="mode is one of"):
        metrics.add(REQUESTS(route="/", mode="guessed"))  # type: ignore[arg-type]


def test_a_metric_of_another_process_is_refused() -> None:
    with pytest.raises(ValueError, match="tally_test_waiting is not a metric of this process"):
        Metrics([REQUESTS]).set(WAITING(), 1)


def test_values_are_exposed_under_their_names_and_labels() -> None:
    metrics = Metrics([REQUESTS, WAITING, TOOK])
    metrics.add(REQUESTS(route="/a", mode="exact"))
    metrics.add(REQUESTS(route="/a", mode="exact"), 2)
    metrics.set(WAITING(), 5)
    metrics.observe(TOOK(), 0.5)
    found = exposed(metrics)
    assert found['tally_test_requests_total{mode="exact",route="/a"}'] == 3
    assert found["tally_test_waiting"] == 5
    assert found['tally_test_seconds_bucket{le="0.1"}'] == 0
    assert found['tally_test_seconds_bucket{le="1.0"}'] == 1
    assert found["tally_test_seconds_count"] == 1
    assert not [name for name in found if "_created" in name]


def test_a_gauge_that_is_read_is_asked_at_each_scrape() -> None:
    metrics, waiting = Metrics([WAITING]), [1, 2]
    metrics.read(WAITING(), lambda: len(waiting))
    waiting.append(3)
    assert exposed(metrics)["tally_test_waiting"] == 3


def test_free_text_beyond_its_bound_is_counted_as_other_and_not_remembered() -> None:
    metrics = Metrics([REQUESTS])
    for number in range(OPEN_VALUES_MAX + 50):
        metrics.add(REQUESTS(route=f"/{number}", mode="exact"))
    found = exposed(metrics)
    requests = [name for name in found if name.startswith("tally_test_requests_total")]
    assert len(requests) == OPEN_VALUES_MAX + 1
    assert found['tally_test_requests_total{mode="exact",route="other"}'] == 50
    assert len(metrics._known) == OPEN_VALUES_MAX


def test_numbers_beyond_their_bound_are_counted_as_other_as_well() -> None:
    lag = Gauge("tally_test_lag", ByShard, "A lag.")
    metrics = Metrics([lag])
    for shard in range(NUMBERS_MAX + 50):
        metrics.set(lag(shard=shard), 7)
    found = exposed(metrics)
    assert len([name for name in found if name.startswith("tally_test_lag")]) == NUMBERS_MAX + 1
    assert found['tally_test_lag{shard="other"}'] == 7
    assert len(metrics._known) == NUMBERS_MAX


def test_no_two_metrics_have_a_name_in_common() -> None:
    names = [name for one in ALL for name in {one.name, *one.sample_names}]
    assert len(set(names)) == len(names)
    found = exposed(Metrics(ALL))
    assert found["tally_worker_rows_total"] == 0, "a rate needs a beginning"
    assert found['tally_worker_dead_letters_total{kind="too_late"}'] == 0
