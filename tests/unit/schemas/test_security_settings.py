"""Security of Kafka and ClickHouse as settings: what goes together, and what stays hidden."""

import pickle
from pathlib import Path

import pytest
from pydantic import ValidationError

from pipeline.errors import OperatorError
from schemas.addresses import ClientCertificate
from schemas.settings import NO_SECURITY, Settings, load_settings
from tests.kit.certificates import Authority

SECRET = "hunter2-hunter2"
SASL = {
    "KAFKA_SECURITY": "sasl_ssl",
    "KAFKA_SASL_MECHANISM": "SCRAM-SHA-256",
    "KAFKA_USER": "ann",
    "KAFKA_PASSWORD": SECRET,
}


@pytest.fixture(autouse=True)
def empty_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in Settings.model_fields:
        monkeypatch.delenv(f"TALLY_{name.upper()}", raising=False)
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path, "ours")


def set_all(monkeypatch: pytest.MonkeyPatch, settings: dict[str, str]) -> None:
    for name, value in settings.items():
        monkeypatch.setenv(f"TALLY_{name}", value)


def test_an_address_carries_what_it_takes_to_be_let_in(
    monkeypatch: pytest.MonkeyPatch, authority: Authority
) -> None:
    cert, key = authority.certificate("client", key_password=SECRET)
    files = {"KAFKA_CA": str(authority.ca), "KAFKA_CERT": str(cert), "KAFKA_KEY": str(key)}
    set_all(monkeypatch, {**SASL, **files, "KAFKA_KEY_PASSWORD": SECRET})
    kafka = load_settings(kafka="a:1").kafka
    assert str(kafka) == "a:1"
    assert kafka.security.uses_tls
    assert kafka.security.uses_sasl
    assert kafka.security.password is not None
    assert kafka.security.password.get_secret_value() == SECRET
    assert kafka.security.ca == authority.ca
    assert isinstance(kafka.security.certificate, ClientCertificate)
    assert kafka.security.certificate.key == key
    assert pickle.loads(pickle.dumps(kafka)) == kafka


def test_a_default_address_has_the_security_that_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    set_all(monkeypatch, SASL)
    assert load_settings().kafka.security.user == "ann"


def test_passwords_may_be_in_files(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_text(f"{SECRET}\n")
    settings = {name: value for name, value in SASL.items() if name != "KAFKA_PASSWORD"}
    set_all(monkeypatch, {**settings, "KAFKA_PASSWORD_FILE": str(file)})
    set_all(monkeypatch, {"CLICKHOUSE_PASSWORD_FILE": str(file), "CLICKHOUSE": "http://ann@a:1"})
    found = load_settings()
    for password in (found.kafka.security.password, found.clickhouse.password):
        assert password is not None
        assert password.get_secret_value() == SECRET


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"KAFKA_SECURITY": "tls"}, "TALLY_KAFKA_SECURITY: input should be 'plaintext', 'ssl'"),
        ({"KAFKA_SASL_MECHANISM": "PLAIN"}, "TALLY_KAFKA_SASL_MECHANISM: it goes with"),
        ({"KAFKA_USER": "ann"}, "TALLY_KAFKA_USER: it goes with"),
        ({"KAFKA_PASSWORD": SECRET}, "TALLY_KAFKA_PASSWORD: it goes with TALLY_KAFKA_USER"),
        ({**SASL, "KAFKA_SASL_MECHANISM": ""}, "TALLY_KAFKA_SASL_MECHANISM: name PLAIN, SCRAM"),
        ({**SASL, "KAFKA_USER": "", "KAFKA_PASSWORD": ""}, "TALLY_KAFKA_USER: name the user"),
        ({**SASL, "KAFKA_PASSWORD": ""}, "TALLY_KAFKA_PASSWORD_FILE: give it or TALLY_KAFKA_PASS"),
        ({**SASL, "KAFKA_PASSWORD_FILE": "x"}, "TALLY_KAFKA_PASSWORD_FILE: give it or"),
        (
            {**SASL, "KAFKA_PASSWORD": "", "KAFKA_PASSWORD_FILE": "gone"},
            "TALLY_KAFKA_PASSWORD_FILE: gone cannot be read (No such file or directory)",
        ),
        ({"KAFKA_CA": "ca.pem"}, "TALLY_KAFKA_CA: it goes with TALLY_KAFKA_SECURITY=ssl"),
        (
            {"KAFKA_SECURITY": "ssl", "KAFKA_CA": "gone"},
            "TALLY_KAFKA_CA: gone cannot be read (No such file or directory)",
        ),
        (
            {"KAFKA_SECURITY": "ssl", "KAFKA_CA": "junk"},
            "TALLY_KAFKA_CA: junk has no certificates in PEM form",
        ),
        (
            {"KAFKA_SECURITY": "ssl", "KAFKA_KEY": "junk"},
            "TALLY_KAFKA_CERT: name the certificate whose key TALLY_KAFKA_KEY is",
        ),
        (
            {"KAFKA_SECURITY": "ssl", "KAFKA_CERT": "junk"},
            "TALLY_KAFKA_CERT: junk has no key in PEM form",
        ),
        (
            {"CLICKHOUSE_PASSWORD_FILE": "junk", "CLICKHOUSE": f"http://a:{SECRET}@b:1"},
            "TALLY_CLICKHOUSE: has a password, and TALLY_CLICKHOUSE_PASSWORD_FILE is set, too",
        ),
        (
            {"CLICKHOUSE_PASSWORD_FILE": "empty"},
            "TALLY_CLICKHOUSE_PASSWORD_FILE: empty must hold the password on its one line",
        ),
        (
            {"CLICKHOUSE_KEY": "junk"},
            "TALLY_CLICKHOUSE_CERT: name the certificate whose key TALLY_CLICKHOUSE_KEY is",
        ),
        (
            {"CLICKHOUSE_CA": "ca.pem"},
            "TALLY_CLICKHOUSE: expected https, since TALLY_CLICKHOUSE_CA is set",
        ),
    ],
)
def test_a_contradiction_is_one_line_that_names_the_variable(
    settings: dict[str, str], told: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    Authority(tmp_path, "ours").ca.rename("ca.pem")
    Path("junk").write_text(SECRET)
    Path("empty").touch()
    set_all(monkeypatch, settings)
    with pytest.raises(OperatorError) as refused:
        load_settings()
    assert str(refused.value).startswith(told)
    assert ";" not in str(refused.value)
    assert "\n" not in str(refused.value)
    assert SECRET not in str(refused.value)


def test_a_key_must_fit_its_certificate_and_password(
    monkeypatch: pytest.MonkeyPatch, authority: Authority
) -> None:
    cert, key = authority.certificate("client", key_password=SECRET)
    set_all(monkeypatch, {"KAFKA_SECURITY": "ssl", "KAFKA_CERT": str(cert), "KAFKA_KEY": str(key)})
    for wrong in ("", "not-it"):
        monkeypatch.setenv("TALLY_KAFKA_KEY_PASSWORD", wrong)
        with pytest.raises(OperatorError, match=r"TALLY_KAFKA_CERT: .*has no key in PEM form"):
            load_settings()


def test_no_secret_is_shown(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    set_all(monkeypatch, {**SASL, "CLICKHOUSE": f"https://ann:{SECRET}@ch.example"})
    settings = load_settings()
    shown = [settings, settings.kafka, settings.clickhouse, settings.model_dump()]
    for value in shown:
        assert SECRET not in f"{value!r} {value}"
    assert str(settings.clickhouse) == "https://ch.example"


def test_not_even_the_library_s_own_error_shows_a_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    set_all(monkeypatch, {"KAFKA_PASSWORD": SECRET, "CLICKHOUSE": f"http://a:{SECRET}@b:0"})
    with pytest.raises(ValidationError) as refused:
        Settings()
    assert SECRET not in f"{refused.value} {refused.value!r}"


def test_servers_of_this_machine_can_be_kept_free_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    set_all(monkeypatch, SASL)
    for name, value in NO_SECURITY.items():
        monkeypatch.setenv(name, value)
    assert load_settings().kafka.security.protocol == "plaintext"
