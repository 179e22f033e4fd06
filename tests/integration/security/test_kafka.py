"""A Kafka with users and certificates: the whole path, and what is told who is refused."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from pipeline.errors import OperatorError
from pipeline.producer import Producer
from tests.kit.certificates import Authority
from tests.kit.guarded_kafka import PASSWORD, USER, GuardedKafka
from tests.kit.kafka import require_kafka
from tests.kit.processes import Process, wait_until
from tests.kit.tally import TALLY, RunningTally, tally_on

pytestmark = pytest.mark.kafka

TOLD_S = 100
"""A refusal is told within a second or two; the rest is for a busy machine."""


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GuardedKafka]:
    require_kafka()
    folder = tmp_path_factory.mktemp("guarded")
    broker = GuardedKafka(folder / "kafka", Authority(folder, "ours"))
    try:
        broker.start()
        yield broker
    finally:
        broker.kill()


@pytest.fixture(scope="module")
def tally(kafka: GuardedKafka, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningTally]:
    with tally_on(kafka, tmp_path_factory.mktemp("tally"), settings=kafka.as_user) as running:
        yield running


def with_settings(tally: RunningTally, settings: Mapping[str, str]) -> RunningTally:
    return replace(tally, settings={**tally.settings, **settings})


def test_what_a_user_sends_over_tls_is_counted(
    tally: RunningTally, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = "".join(json.dumps({"counter": "safe:a", "delta": n}) + "\n" for n in (1, 2, 3))
    tally.run("produce", "-", stdin=lines)
    tally.run("produce", "--frames", "-", stdin=lines)
    for name, value in tally.env.items():
        monkeypatch.setenv(name, value)
    with Producer(tally.env["TALLY_KAFKA"]) as producer:
        producer.increment("safe:a", 30)
    tally.run("adjust", "safe:a", "--by", "58", "--why", "a test")

    wait_until(lambda: tally.json("count", "safe:a")["total"] == 100, "all are counted")
    assert tally.healthy_status()["healthy"] is True
    shown = tally.run("tail", "--from-start", "--no-follow", "--counter", "safe:a").stdout
    assert [line.split()[2] for line in shown.splitlines()] == ["+1", "+2", "+3", "+6", "+30"]


def test_a_doctor_tells_of_tls_and_the_user(tally: RunningTally) -> None:
    findings = json.loads(tally.run("doctor", "--json").stdout)["findings"]
    found = {finding["name"]: (finding["state"], finding["detail"]) for finding in findings}
    assert found["TLS of Kafka"] == ("ok", "TLSv1.3; the certificate is good for 30 days")
    assert found["user of Kafka"] == ("ok", f"{USER} logs in by SCRAM-SHA-512")


def test_a_certificate_lets_a_client_in(tally: RunningTally, kafka: GuardedKafka) -> None:
    certified = replace(tally, settings=kafka.with_certificate())
    certified.run("produce", "-", stdin='{"counter": "safe:certified"}\n')
    wait_until(lambda: tally.json("count", "safe:certified")["total"] == 1, "it is counted")


def test_a_wrong_password_is_told_at_once(tally: RunningTally, tmp_path: Path) -> None:
    wrong = with_settings(tally, {"TALLY_KAFKA_PASSWORD": "not-this-one"})
    command = [*TALLY, "worker"]
    with Process(command, output_path=tmp_path / "worker.txt", env=wrong.env) as worker:
        said = [wrong.run(*asked, code=1).stderr for asked in (("produce", "-"), ("status",))]
        assert worker.wait(timeout_s=TOLD_S) == 1
        said.append(worker.output())
    told = f"Kafka at {wrong.env['TALLY_KAFKA']} refused user {USER}: "
    for text in said:
        assert f"{told}check TALLY_KAFKA_USER and TALLY_KAFKA_PASSWORD" in text
        assert "not-this-one" not in text


def test_a_doctor_tells_of_a_wrong_password(tally: RunningTally) -> None:
    wrong = with_settings(tally, {"TALLY_KAFKA_PASSWORD": "not-this-one"})
    findings = json.loads(wrong.run("doctor", "--json", code=1).stdout)["findings"]
    [failed] = [finding for finding in findings if finding["state"] == "fail"]
    assert "refused user tally: check TALLY_KAFKA_USER" in failed["detail"]


def test_a_program_is_told_of_a_wrong_password(
    tally: RunningTally, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {**tally.env, "TALLY_KAFKA_PASSWORD": "not-this-one"}.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(OperatorError, match="refused user tally"):
        Producer()


def test_other_refusals_name_what_to_check(
    tally: RunningTally, kafka: GuardedKafka, tmp_path: Path
) -> None:
    stranger = Authority(tmp_path, "stranger")
    cert, key = stranger.certificate("somebody")
    certified = kafka.with_certificate()
    cases = {
        "certificate verify failed): check TALLY_KAFKA_CA": {"TALLY_KAFKA_CA": str(stranger.ca)},
        "log in by SCRAM-SHA-256: check TALLY_KAFKA_SASL_MECHANISM": {
            "TALLY_KAFKA_SASL_MECHANISM": "SCRAM-SHA-256"
        },
    }
    for told, settings in cases.items():
        assert told in with_settings(tally, settings).run("status", code=1).stderr
    alien = {
        **certified,
        "TALLY_KAFKA_CERT": str(cert),
        "TALLY_KAFKA_KEY": str(key),
        "TALLY_KAFKA_KEY_PASSWORD": "",
    }
    said = replace(tally, settings=alien).run("status", code=1).stderr
    assert "refused this client's certificate (bad certificate): check TALLY_KAFKA_CERT" in said
    assert PASSWORD not in said
