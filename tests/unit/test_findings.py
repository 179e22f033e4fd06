"""How `tally doctor` judges what it found, without asking anybody."""

import struct

import pytest

from pipeline.doctor.findings import (
    DAY_MS,
    GIB,
    Finding,
    certificate_of,
    clock_of,
    compacted_settings,
    copies,
    free_space,
    kept_settings,
    open_files,
    source_settings,
)
from pipeline.doctor.kafka_versions import NEEDED, not_spoken, parse_versions
from pipeline.errors import OperatorError

GOOD = {
    "message.timestamp.type": "LogAppendTime",
    "cleanup.policy": "delete",
    "retention.ms": "604800000",
}


@pytest.mark.parametrize(
    ("finding", "state"),
    [
        (certificate_of("Kafka", "TLSv1.3", 15 * DAY_MS), "ok"),
        (certificate_of("Kafka", "TLSv1.3", 13 * DAY_MS), "warn"),
        (free_space("disk", 10 * GIB, 100 * GIB), "ok"),
        (free_space("disk", 2 * GIB, 100 * GIB), "warn"),
        (free_space("disk", 1000, 100 * GIB), "fail"),
        (open_files(20_000), "ok"),
        (open_files(1024), "warn"),
        (open_files(64), "fail"),
        (clock_of("the log", -400, 10), "ok"),
        (clock_of("the log", -5_000, 4_500), "ok"),
        (clock_of("the log", 5_000, 10), "warn"),
        (clock_of("the log", -400_000, 10), "fail"),
        (source_settings("t", GOOD), "ok"),
        (source_settings("t", GOOD | {"retention.ms": "-1"}), "ok"),
        (source_settings("t", GOOD | {"retention.ms": "3600000"}), "warn"),
        (source_settings("t", GOOD | {"message.timestamp.type": "CreateTime"}), "fail"),
        (source_settings("t", GOOD | {"cleanup.policy": "compact"}), "fail"),
        (compacted_settings("t", {"cleanup.policy": "compact"}), "ok"),
        (compacted_settings("t", {"cleanup.policy": "compact,delete"}), "fail"),
        (kept_settings("t", {"retention.ms": "-1"}), "ok"),
        (kept_settings("t", GOOD), "warn"),
        (copies("t", 1, 1, 1), "ok"),
        (copies("t", 3, 1, 1), "warn"),
        (copies("t", 3, 3, 1), "warn"),
        (copies("t", 3, 3, 2), "ok"),
    ],
)
def test_a_finding_is_as_bad_as_it_is_and_says_what_to_do(finding: Finding, state: str) -> None:
    assert finding.state == state
    assert bool(finding.to_do) == (state != "ok")
    assert finding.detail


def answer(*versions: tuple[int, int, int], error: int = 0) -> bytes:
    return struct.pack(">ihi", 1, error, len(versions)) + b"".join(
        struct.pack(">hhh", *entry) for entry in versions
    )


def test_a_broker_that_takes_everything_lacks_nothing() -> None:
    spoken = parse_versions(answer(*((api.key, 0, 20) for api in NEEDED)))
    assert not_spoken(spoken) == []


def test_a_broker_too_old_or_too_new_for_a_request_is_told() -> None:
    versions = {api.key: (api.low, api.high) for api in NEEDED}
    versions[0] = (0, 2)
    versions[1] = (12, 17)
    del versions[22]
    assert not_spoken(versions) == ["Produce", "Fetch", "InitProducerId"]


@pytest.mark.parametrize("bad", [answer(error=35), struct.pack(">ihi", 1, 0, 1000)])
def test_an_answer_that_is_not_kafkas_is_refused(bad: bytes) -> None:
    with pytest.raises(OperatorError, match="not Kafka's"):
        parse_versions(bad)
