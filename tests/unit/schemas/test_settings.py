from pathlib import Path

import pytest

from pipeline.errors import OperatorError
from schemas.addresses import ClickHouseAddress, KafkaAddress
from schemas.host_port import split_host_port
from schemas.settings import NO_SECURITY, Settings, load_settings

SECURITY = {name.removeprefix("TALLY_").lower() for name in NO_SECURITY}


@pytest.fixture(autouse=True)
def empty_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in Settings.model_fields:
        monkeypatch.delenv(f"TALLY_{name.upper()}", raising=False)
    monkeypatch.chdir(tmp_path)


def test_the_defaults_are_the_addresses_of_tally_up() -> None:
    found = load_settings().model_dump(exclude=SECURITY)
    assert found == {
        "kafka": "127.0.0.1:19092",
        "clickhouse": "http://127.0.0.1:18123",
        "web": "127.0.0.1:8321",
        "metrics": None,
        "cache_age_s": 2.0,
        "replica": "main",
        "config": None,
        "build": 0,
        "partitions": 8,
        "flush_interval_s": 0.5,
        "checkpoint_interval_s": 5.0,
        "unflushed_rows_max": 2_000_000,
        "heartbeat_interval_s": 5.0,
        "rollup_interval_s": 60.0,
        "trends_interval_s": 10.0,
        "verify_interval_s": 60.0,
        "shard_rate_max": 10_000.0,
        "shard_delivery_p99_ms": 500.0,
        "shard_cool_s": 60.0,
        "strict_wait_s": 10.0,
        "longest_query_s": 3600.0,
        "tokens": None,
        "jwt_key": None,
        "jwt_audience": None,
        "jwt_issuer": None,
        "rate_max": 0.0,
    }


def test_a_config_in_the_working_folder_is_found() -> None:
    Path("tally.toml").touch()
    assert load_settings().config == Path("tally.toml")


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("KAFKA", "a.example:9092, [::1]:9093", KafkaAddress("a.example:9092,[::1]:9093")),
        (
            "CLICKHOUSE",
            "https://user:secret@ch.example/",
            ClickHouseAddress("https://user:secret@ch.example"),
        ),
        ("WEB", "0.0.0.0:80", "0.0.0.0:80"),
        ("METRICS", "127.0.0.1:9464 ", "127.0.0.1:9464"),
        ("REPLICA", "eu-west.1", "eu-west.1"),
        ("CONFIG", "/etc/tally.toml", Path("/etc/tally.toml")),
        ("BUILD", "7", 7),
        ("FLUSH_INTERVAL_S", "0.25", 0.25),
        ("UNFLUSHED_ROWS_MAX", "5000", 5000),
        ("PARTITIONS", "", 8),
    ],
)
def test_a_variable_sets_its_field(
    name: str, text: str, value: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(f"TALLY_{name}", text)
    assert getattr(load_settings(), name.lower()) == value


@pytest.mark.parametrize(
    ("name", "text", "reason"),
    [
        ("KAFKA", "localhost", "expected host:port, got 'localhost'"),
        ("KAFKA", "a:1,", "expected host:port, got ''"),
        ("KAFKA", "a:99999", "the port must be from 1 to 65535, got '99999'"),
        ("KAFKA", "http://a:1", "expected host:port, got 'http://a:1'"),
        ("WEB", ":8321", "expected host:port, got ':8321'"),
        ("CLICKHOUSE", "127.0.0.1:18123", "expected a URL such as http://127.0.0.1:18123"),
        ("CLICKHOUSE", "http://u:secret@a:0", "the port in the URL must be from 1 to 65535"),
        ("CLICKHOUSE", "http://a/?x=1", "expected a URL without ? and #"),
        ("REPLICA", "a b", "expected 1 to 64 letters, digits, '.', '_' or '-', got 'a b'"),
        ("BUILD", "-1", "input should be greater than or equal to 0"),
        ("PARTITIONS", "many", "input should be a valid integer, unable to parse string"),
        ("FLUSH_INTERVAL_S", "nan", "input should be a finite number"),
    ],
)
def test_a_mistake_is_one_line_that_names_the_variable(
    name: str, text: str, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(f"TALLY_{name}", text)
    with pytest.raises(OperatorError) as refused:
        load_settings()
    assert str(refused.value).startswith(f"TALLY_{name}: {reason}")
    assert "\n" not in str(refused.value)
    assert "secret" not in str(refused.value)


def test_host_and_port_are_taken_apart() -> None:
    assert split_host_port("[::1]:80") == ("::1", 80)
    assert split_host_port("localhost:9092") == ("localhost", 9092)
