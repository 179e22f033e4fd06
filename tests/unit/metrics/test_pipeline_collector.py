"""The pipeline's figures: asked seldom, kept between scrapes, and honest about failures."""

import threading
from collections.abc import Callable

import pytest

from pipeline.errors import TryAgainError
from pipeline.metrics import pipeline_collector
from pipeline.metrics.definitions.pipeline import PIPELINE
from pipeline.metrics.figures import Seen, figures
from pipeline.metrics.pipeline_collector import INTERVAL_S, KEPT_S, PipelineCollector
from pipeline.reads.health import judge
from pipeline.reads.observed import Letters, Reconciliation, Spill
from tests.kit.clocks import ManualClock
from tests.unit.test_status import NOW, flushed, observed


def seen(lag: int = 5) -> Seen:
    found = observed(
        {0: 10 + lag, 1: 10},
        flushed(0, 9, age_ms=2_000, log_ms=NOW - 3_000),
        flushed(1, 9, log_ms=NOW + 4_000),
        letters=Letters(7, 2, "not JSON", {"not_json": 6, "too_late": 1}),
        rollup_ages_ms={"likes": 61_000, "views": 1_000},
        spills=[Spill("tag", "tag:", 40)],
        reconciled=Reconciliation(differences=3, example="x"),
    )
    return Seen(judge(found), build=4, rollup_interval_s=60.0)


class Asked:
    """Answers with the next lag, or raises it."""

    def __init__(self, *answers: int | Exception) -> None:
        self.answers = list(answers)
        self.times = 0

    def __call__(self) -> Seen:
        self.times += 1
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return seen(answer)


def scrape(collector: PipelineCollector) -> dict[str, float]:
    return {
        sample.name + "".join(f" {key}={value}" for key, value in sample.labels.items()): (
            sample.value
        )
        for family in collector.collect()
        for sample in family.samples
    }


def collector(ask: Callable[[], Seen], clock: ManualClock) -> PipelineCollector:
    return PipelineCollector(ask, clock)


def test_what_status_found_is_told_in_seconds_and_by_shard() -> None:
    found = {(series.definition.name, series.labels): value for series, value in figures(seen())}
    assert found["tally_pipeline_shard_lag", (0,)] == 5
    assert found["tally_pipeline_lag_mean", ()] == 2.5
    assert found["tally_pipeline_lag_max", ()] == 5
    assert found["tally_pipeline_shard_behind_seconds", (0,)] == 3.0
    assert found["tally_pipeline_shard_ahead_seconds", (1,)] == 4.0
    assert found["tally_pipeline_shard_flush_age_seconds", (0,)] == 2.0
    assert found["tally_pipeline_shard_checkpoint_age_seconds", (0,)] == 2.0
    assert found["tally_pipeline_freshness_p99_seconds", ()] == 1.5
    assert found["tally_pipeline_rollup_age_seconds", ()] == 61.0
    assert found["tally_pipeline_dead_letters", ("not_json",)] == 6
    assert found["tally_pipeline_dead_letters", ("overflow",)] == 0
    assert found["tally_pipeline_capped_families", ()] == 1
    assert found["tally_pipeline_differences", ()] == 3
    assert found["tally_pipeline_build", ()] == 4
    assert found["tally_pipeline_healthy", ()] == 0


def test_every_metric_of_the_pipeline_is_told() -> None:
    told = {name.partition(" ")[0] for name in scrape(collector(Asked(5), ManualClock()))}
    never_here = {"tally_pipeline_shard_freshness_p99_seconds"}
    never_here |= {"tally_pipeline_freshness_p99_max_seconds"}
    assert told == {one.name for one in PIPELINE} - never_here, "no shard has heartbeats here"


def test_figures_are_kept_for_an_interval() -> None:
    ask, clock = Asked(5, 6), ManualClock()
    of = collector(ask, clock)
    assert scrape(of)["tally_pipeline_lag_max"] == 5
    clock.advance(INTERVAL_S / 2)
    kept = scrape(of)
    assert (kept["tally_pipeline_lag_max"], ask.times) == (5, 1)
    assert kept["tally_pipeline_observed_age_seconds"] == INTERVAL_S / 2
    clock.advance(INTERVAL_S / 2)
    assert (scrape(of)["tally_pipeline_lag_max"], ask.times) == (6, 2)


def test_a_server_that_is_away_is_told_beside_the_old_figures_until_they_are_too_old(
    caplog: pytest.LogCaptureFixture,
) -> None:
    away = TryAgainError("Kafka is away")
    clock = ManualClock()
    of = collector(Asked(5, away, away, ValueError("a bug")), clock)
    assert scrape(of)["tally_pipeline_up"] == 1
    clock.advance(INTERVAL_S)
    found = scrape(of)
    assert (found["tally_pipeline_up"], found["tally_pipeline_lag_max"]) == (0, 5)
    clock.advance(KEPT_S)
    assert scrape(of) == {"tally_pipeline_up": 0}
    assert caplog.text.count("Kafka is away") == 1, "the same is told once"
    clock.advance(INTERVAL_S)
    assert scrape(of) == {"tally_pipeline_up": 0}
    assert "a bug" in caplog.text


def test_a_scrape_does_not_wait_for_a_server_that_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipeline_collector, "WAIT_S", 0.05)
    answered, asked = threading.Event(), []

    def hang() -> Seen:
        asked.append(1)
        assert answered.wait(10)
        return seen()

    of = collector(hang, ManualClock())
    assert scrape(of) == {"tally_pipeline_up": 0}
    assert scrape(of) == {"tally_pipeline_up": 0}
    assert len(asked) == 1, "one asks at a time"
    asking = of._asking
    assert asking is not None
    answered.set()
    asking.join(10)
    assert scrape(of)["tally_pipeline_lag_max"] == 5
