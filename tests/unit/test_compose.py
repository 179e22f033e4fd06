"""What of docker-compose.yml can be checked without starting it, which not every machine can."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from schemas.settings import Settings

ROOT = Path(__file__).parents[2]
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]


@pytest.mark.parametrize("name", SERVICES)
def test_published_ports_listen_on_loopback_only(name: str) -> None:
    for port in SERVICES[name].get("ports", []):
        assert port.startswith("127.0.0.1:")


@pytest.mark.parametrize("name", [n for n, service in SERVICES.items() if "ports" in service])
def test_a_published_service_has_a_health_check_and_keeps_its_data(name: str) -> None:
    assert "test" in SERVICES[name]["healthcheck"]
    volumes = [volume.partition(":")[0] for volume in SERVICES[name]["volumes"]]
    assert set(volumes) <= set(COMPOSE["volumes"])


def test_no_password_has_a_default() -> None:
    text = (ROOT / "docker-compose.yml").read_text()
    assert "CLICKHOUSE_PASSWORD:?" in text
    assert "PASSWORD:-" not in text


def test_services_wait_for_services_that_exist_and_tell_their_health() -> None:
    for service in SERVICES.values():
        for other, wait in service.get("depends_on", {}).items():
            assert wait == {"condition": "service_healthy"}
            assert "healthcheck" in SERVICES[other]


def test_every_tally_variable_is_a_setting_that_accepts_its_value(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    environment = SERVICES["worker"]["environment"]
    for name, value in environment.items():
        monkeypatch.setenv(name, value.replace("${CLICKHOUSE_PASSWORD}", "secret"))
        assert name.removeprefix("TALLY_").lower() in Settings.model_fields
    assert str(Settings().kafka) == environment["TALLY_KAFKA"]


def test_the_image_is_built_from_files_that_exist() -> None:
    lines = (ROOT / "Dockerfile").read_text().splitlines()
    sources = [
        word
        for line in lines
        if line.startswith("COPY ") and "--from" not in line
        for word in line.split()[1:-1]
    ]
    assert sources
    assert all((ROOT / source).exists() for source in sources)
    assert lines.index("USER tally") < lines.index('ENTRYPOINT ["/opt/tally/bin/tally"]')
