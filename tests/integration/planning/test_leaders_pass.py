"""Passes of the leader on a real log, with a clock of the test's own. One log for all, in order."""

from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import Producer

from pipeline import topics
from pipeline.clock import SystemClock
from pipeline.control.log_writer import LogRecord, write_records
from pipeline.control.shard_plan import read_plan
from pipeline.errors import OperatorError, TryAgainError
from pipeline.planning import hints
from pipeline.planning.hints import hint
from pipeline.planning.leaders_pass import ShardPlanning
from pipeline.planning.load import LoadReport, encode
from pipeline.planning.plan import PlanRecords, Split
from schemas.addresses import KafkaAddress
from schemas.settings import Settings
from tests.kit.brokers import Broker
from tests.kit.clocks import ManualClock
from tests.kit.kafka import BROKERS_OF_LONG_FORMS
from tests.kit.waiting import eventually

pytestmark = pytest.mark.parametrize("broker", BROKERS_OF_LONG_FORMS, indirect=True)

PARTITIONS = 8
MINUTE_MS = 60_000
HOT = "likes:hot"


class Site:
    """A leader and its log."""

    def __init__(self, broker: Broker) -> None:
        self.kafka = broker.bootstrap
        self.time = ManualClock(SystemClock().now_ms() // 1000)
        self.leader = self.new_leader()
        # Kept, and without ids of its own: to get one takes librdkafka half a second.
        self._producer = Producer(
            {"bootstrap.servers": self.kafka, "reconnect.backoff.max.ms": 200, "log_level": 0}
        )

    def new_leader(self) -> ShardPlanning:
        return ShardPlanning(Settings(kafka=KafkaAddress(self.kafka), config=None), self.time)

    def report(self, rates: dict[str, int]) -> None:
        report = LoadReport("one", 0, 1000, list(rates.items()), sum(rates.values()))
        self._producer.produce(topics.LOAD, encode(report), partition=0)
        assert self._producer.flush(20) == 0

    def until(
        self,
        holds: Callable[[PlanRecords], object],
        what: str,
        *,
        step_s: float = 0,
        rates: dict[str, int] | None = None,
    ) -> PlanRecords:
        """Passes, so much time apart and each after a report, until the plan is as it should be."""

        def is_so() -> bool:
            if rates:
                self.report(rates)
            self.time.advance(step_s)
            self.leader.run()
            return bool(holds(read_plan(KafkaAddress(self.kafka))))

        eventually(is_so, what)
        return read_plan(KafkaAddress(self.kafka))


@pytest.fixture
def site(broker: Broker) -> Iterator[Site]:
    topics.ensure_topics(KafkaAddress(broker.bootstrap), 1, PARTITIONS)
    site = Site(broker)
    site.leader.run()
    yield site
    site.leader.rest()


def test_a_pass_splits_by_what_came_since_the_leader_began(site: Site) -> None:
    records = site.until(lambda plan: plan.splits, "it is split", rates={HOT: 12_000})
    assert records.splits == {HOT: Split(4, 12_000.0, "rate", site.time.now_ms())}
    # What was reported before it began is nobody's load now: a new leader sees none.
    site.leader.rest()
    site.leader = site.new_leader()
    began_ms = site.time.now_ms()
    records = site.until(lambda plan: plan.splits[HOT].n < 4, "it is halved", step_s=1)
    assert records.splits[HOT] == Split(2, 0.0, "quiet", began_ms + 61_000)
    site.until(lambda plan: not plan.splits, "it is whole again", step_s=10)


def test_a_hint_that_is_over_is_taken_away(site: Site) -> None:
    hint(KafkaAddress(site.kafka), HOT, n=4, for_ms=MINUTE_MS, clock=site.time)
    site.leader.run()
    assert HOT in read_plan(KafkaAddress(site.kafka)).hints
    site.time.advance(60)
    assert site.until(lambda plan: not plan.hints, "the hint is gone") == PlanRecords()


def test_only_so_many_hints_hold_at_once(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hints, "HINTS_MAX", 2)
    kafka = KafkaAddress(site.kafka)
    for name, n in (("likes:a", 2), ("likes:b", 2), ("likes:b", 3)):
        hint(kafka, name, n=n, for_ms=MINUTE_MS, clock=site.time)
    with pytest.raises(OperatorError, match="2 hints hold already: clear one with tally shard"):
        hint(kafka, "likes:c", n=2, for_ms=MINUTE_MS, clock=site.time)
    assert {name: one.n for name, one in read_plan(kafka).hints.items()} == {
        "likes:a": 2,
        "likes:b": 3,
    }
    site.time.advance(60)
    hint(kafka, "likes:c", n=2, for_ms=MINUTE_MS, clock=site.time)


def test_over_sharded_counters_are_told_and_kept_by_the_next_leader(site: Site) -> None:
    hint(KafkaAddress(site.kafka), HOT, n=4, for_ms=10_000 * MINUTE_MS, clock=site.time)
    began_ms = site.time.now_ms()
    found = site.until(lambda plan: plan.over_sharded.counters, "it is told", step_s=60)
    assert found.over_sharded.counters == {HOT: 4}
    assert found.over_sharded.at_ms >= began_ms + 10 * MINUTE_MS
    site.leader.rest()
    site.leader = site.new_leader()
    site.leader.run()
    assert read_plan(KafkaAddress(site.kafka)).over_sharded == found.over_sharded
    site.until(
        lambda plan: not plan.over_sharded.counters, "it has something to do", rates={HOT: 9_000}
    )


def test_a_pass_goes_on_after_kafka_was_away(site: Site, broker: Broker) -> None:
    broker.kill()
    site.leader.run()
    site.time.advance(60)
    with pytest.raises(TryAgainError):
        site.leader.run()
    broker.start()
    eventually(lambda: _runs(site), "it runs again")
    site.until(lambda plan: plan.splits, "it is split", rates={"likes:away": 12_000})


def _runs(site: Site) -> bool:
    try:
        site.leader.run()
    except TryAgainError:
        return False
    return True


def test_junk_on_the_topic_of_reports_is_passed_over(site: Site) -> None:
    producer = Producer({"bootstrap.servers": site.kafka, "log_level": 0})
    for value in (None, b"", b"junk", b"{}", b'"' * 1000):
        producer.produce(topics.LOAD, value)
    producer.flush(10)
    site.until(
        lambda plan: "likes:next" in plan.splits, "it is split", rates={"likes:next": 12_000}
    )


def test_nothing_is_planned_by_rules_that_cannot_be_read(site: Site) -> None:
    junk = LogRecord(topics.SHARD_PLAN, 0, b"junk", b"rules")
    write_records(KafkaAddress(site.kafka), [junk], SystemClock())
    with pytest.raises(OperatorError, match="not counting rules"):
        site.new_leader().run()
