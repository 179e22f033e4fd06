"""An address of Kafka as the arguments of each client."""

import ssl
from pathlib import Path

import pytest
from confluent_kafka import KafkaError
from faust.transport.drivers.aiokafka import credentials_to_aiokafka_auth
from pydantic import SecretStr

from pipeline import clickhouse
from pipeline.errors import OperatorError, TryAgainError
from pipeline.kafka_clients import aiokafka, faust_credentials, librdkafka
from pipeline.kafka_refusals import Refusals
from schemas.addresses import (
    ClickHouseAddress,
    ClientCertificate,
    KafkaAddress,
    KafkaSecurity,
    SaslMechanism,
)
from tests.kit.certificates import Authority

PASSWORD = SecretStr("open sesame")
PLAIN = KafkaAddress("a:1,b:2")


def user_of(mechanism: SaslMechanism = "SCRAM-SHA-512") -> KafkaAddress:
    return KafkaAddress("a:1", KafkaSecurity("sasl_plaintext", mechanism, "ann", PASSWORD))


@pytest.fixture
def certified(tmp_path: Path) -> KafkaAddress:
    authority = Authority(tmp_path, "ours")
    cert, key = authority.certificate("client", key_password="open sesame")
    shown = ClientCertificate(cert, key, PASSWORD)
    return KafkaAddress("a:1", KafkaSecurity("ssl", ca=authority.ca, certificate=shown))


def test_a_plain_address_asks_for_nothing() -> None:
    assert librdkafka(PLAIN) == {
        "bootstrap.servers": "a:1,b:2",
        "security.protocol": "plaintext",
        "log_level": 0,
    }
    assert aiokafka(PLAIN) == {
        "bootstrap_servers": "a:1,b:2",
        "security_protocol": "PLAINTEXT",
        "ssl_context": None,
    }
    assert faust_credentials(PLAIN) is None


def test_a_client_s_own_configuration_comes_beside() -> None:
    assert librdkafka(PLAIN, {"linger.ms": 5})["linger.ms"] == 5


def test_a_user_logs_in_by_every_client() -> None:
    assert librdkafka(user_of()) == {
        "bootstrap.servers": "a:1",
        "security.protocol": "sasl_plaintext",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": "ann",
        "sasl.password": "open sesame",
        "log_level": 0,
    }
    found = aiokafka(user_of())
    assert found["security_protocol"] == "SASL_PLAINTEXT"
    assert found["sasl_mechanism"] == "SCRAM-SHA-512"
    assert found["sasl_plain_username"] == "ann"
    assert found["sasl_plain_password"] == "open sesame"


def test_certificates_are_named_to_one_client_and_loaded_for_the_other(
    certified: KafkaAddress,
) -> None:
    shown = certified.security.certificate
    assert shown is not None
    found = librdkafka(certified)
    assert found["ssl.ca.location"] == str(certified.security.ca)
    assert found["ssl.certificate.location"] == str(shown.cert)
    assert found["ssl.key.location"] == str(shown.key)
    assert found["ssl.key.password"] == "open sesame"
    context = aiokafka(certified)["ssl_context"]
    assert context.verify_mode == ssl.CERT_REQUIRED
    assert context.check_hostname
    [authority] = context.get_ca_certs()
    assert authority["subject"] == ((("commonName", "ours"),),)


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_faust_s_driver_gives_its_clients_what_ours_get(mechanism: SaslMechanism) -> None:
    ours = aiokafka(user_of(mechanism))
    del ours["bootstrap_servers"]
    assert credentials_to_aiokafka_auth(faust_credentials(user_of(mechanism))) == ours


def test_faust_s_driver_gets_certificates_too(certified: KafkaAddress) -> None:
    found = credentials_to_aiokafka_auth(faust_credentials(certified))
    assert found["security_protocol"] == "SSL"
    assert found["ssl_context"].get_ca_certs() == aiokafka(certified)["ssl_context"].get_ca_certs()


def test_files_that_are_gone_by_now_are_told(certified: KafkaAddress) -> None:
    assert certified.security.ca is not None
    certified.security.ca.unlink()
    with pytest.raises(OperatorError, match="the files for TLS cannot be used"):
        aiokafka(certified)


def test_clickhouse_gets_tls_by_the_scheme_and_not_by_the_port(tmp_path: Path) -> None:
    https = ClickHouseAddress("https://ann@a:9440", PASSWORD, tmp_path / "ca.pem")
    assert clickhouse.arguments(https) == {
        "dsn": "https://ann@a:9440",
        "interface": "https",
        "username": "ann",
        "password": "open sesame",
        "ca_cert": str(tmp_path / "ca.pem"),
    }
    assert clickhouse.arguments(ClickHouseAddress("http://a:8443"))["interface"] == "http"


def test_a_certificate_is_who_asks_unless_there_is_a_password(tmp_path: Path) -> None:
    shown = ClientCertificate(tmp_path / "cert.pem", tmp_path / "key.pem")
    alone = clickhouse.arguments(ClickHouseAddress("https://ann@a", certificate=shown))
    assert alone["client_cert_key"] == str(shown.key)
    assert "tls_mode" not in alone
    both = clickhouse.arguments(ClickHouseAddress("https://ann:x@a", certificate=shown))
    assert both["tls_mode"] == "strict"


def test_only_refusals_are_for_somebody_to_act_on() -> None:
    def judged(code: int, told: str) -> str:
        refusals = Refusals(user_of())
        refusals.hear(KafkaError(code, told))
        error = refusals.as_ours()
        return f"{type(error).__name__}: {error}"

    user = judged(KafkaError._AUTHENTICATION, "SASL authentication error: Authentication failed")
    assert user.startswith("OperatorError: Kafka at a:1 refused user ann: check TALLY_KAFKA_USER")
    cut = judged(KafkaError._AUTHENTICATION, "SASL authentication error: Local: Timed out")
    assert cut.startswith("TryAgainError: Kafka at a:1 does not answer")
    away = judged(KafkaError._TRANSPORT, "Connect to ipv4#127.0.0.1:1 failed: Connection refused")
    assert away.endswith("TALLY_KAFKA sets its address")
    silent = judged(KafkaError._ALL_BROKERS_DOWN, "1/1 brokers are down")
    assert silent.endswith("and TALLY_KAFKA_SECURITY how it is spoken to")


def test_a_kafka_of_which_nothing_was_heard_may_come_back() -> None:
    assert isinstance(Refusals(PLAIN).as_ours(), TryAgainError)
