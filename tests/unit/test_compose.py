"""What of docker-compose.yml can be checked without starting it, which not every machine can."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from schemas.settings import Settings

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docker-compose.yml").read_text()
COMPOSE: dict[str, Any] = yaml.safe_load(TEXT)
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
PUBLISHED = [name for name, service in SERVICES.items() if "ports" in service]
OWN = [name for name, service in SERVICES.items() if service.get("build") == "."]
DOCKERFILE = (ROOT / "Dockerfile").read_text()


def test_the_whole_set_is_there() -> None:
    assert set(SERVICES) == {"kafka", "clickhouse", "worker", "web", "prometheus", "grafana"}
    assert set(OWN) == {"worker", "web"}


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_ports_listen_on_loopback_only(name: str) -> None:
    for port in SERVICES[name]["ports"]:
        assert port.startswith("127.0.0.1:")


def test_ports_are_those_of_tally_up_so_that_commands_need_no_settings() -> None:
    at = {name: SERVICES[name]["ports"][0].split(":")[1] for name in ("kafka", "clickhouse", "web")}
    defaults = Settings.model_fields
    assert defaults["kafka"].default.endswith(f":{at['kafka']}")
    assert defaults["clickhouse"].default.endswith(f":{at['clickhouse']}")
    assert defaults["web"].default.endswith(f":{at['web']}")


def test_workers_can_be_scaled() -> None:
    assert "ports" not in SERVICES["worker"]
    assert "container_name" not in TEXT


@pytest.mark.parametrize("name", SERVICES)
def test_every_service_has_a_health_check_of_its_own_or_of_its_image(name: str) -> None:
    if name in OWN:
        assert "HEALTHCHECK" in DOCKERFILE
    else:
        assert "test" in SERVICES[name]["healthcheck"]


@pytest.mark.parametrize("name", ["kafka", "clickhouse", "prometheus", "grafana"])
def test_what_keeps_data_keeps_it_in_a_volume(name: str) -> None:
    volumes = [volume.split(":") for volume in SERVICES[name]["volumes"]]
    assert name in COMPOSE["volumes"]
    assert name in {source for source, *_ in volumes}


@pytest.mark.parametrize("name", SERVICES)
def test_mounted_files_exist_and_cannot_be_written(name: str) -> None:
    for volume in SERVICES[name].get("volumes", []):
        source, _, *how = volume.split(":")
        if source.startswith("."):
            assert (ROOT / source).exists()
            assert how == ["ro"]
        else:
            assert source in COMPOSE["volumes"]


def test_no_password_has_a_default_and_each_is_made_by_the_script() -> None:
    asked = set(re.findall(r"\$\{(\w+):\?", TEXT))
    assert asked == {"CLICKHOUSE_PASSWORD", "GRAFANA_PASSWORD"}
    assert set(re.findall(r"\$\{(\w+)", TEXT)) == asked
    assert "PASSWORD:-" not in TEXT
    script = (ROOT / "ops" / "secrets.sh").read_text()
    for name in asked:
        assert name in script
    for secret in COMPOSE["secrets"].values():
        assert secret["file"].removeprefix("./") in script
    ignored = (ROOT / ".gitignore").read_text().splitlines()
    assert {".env", "secrets/"} <= set(ignored)


@pytest.mark.parametrize("name", SERVICES)
def test_secrets_that_are_used_are_declared(name: str) -> None:
    assert set(SERVICES[name].get("secrets", [])) <= set(COMPOSE["secrets"])


def test_services_wait_for_services_that_exist_and_tell_their_health() -> None:
    for service in SERVICES.values():
        for other, wait in service.get("depends_on", {}).items():
            assert wait == {"condition": "service_healthy"}
            assert "healthcheck" in SERVICES[other]


@pytest.mark.parametrize("name", OWN)
def test_every_tally_variable_is_a_setting_that_accepts_its_value(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    environment = SERVICES[name]["environment"]
    for variable, value in environment.items():
        monkeypatch.setenv(variable, value.replace("${CLICKHOUSE_PASSWORD}", "secret"))
        assert variable.removeprefix("TALLY_").lower() in Settings.model_fields
    assert str(Settings().kafka) == environment["TALLY_KAFKA"]
    host = str(Settings().clickhouse).removeprefix("http://").split(":")[0]
    assert host in SERVICES


def test_prometheus_scrapes_the_services_where_they_listen_and_shows_its_token() -> None:
    config = yaml.safe_load((ROOT / "ops" / "prometheus" / "compose.yml").read_text())
    jobs = {job["job_name"]: job for job in config["scrape_configs"]}
    web = SERVICES["web"]["environment"]["TALLY_WEB"].split(":")[1]
    assert jobs["tally-web"]["static_configs"] == [{"targets": [f"web:{web}"]}]
    token = jobs["tally-web"]["authorization"]["credentials_file"]
    assert token.removeprefix("/run/secrets/") in SERVICES["prometheus"]["secrets"]
    workers = jobs["tally-worker"]["dns_sd_configs"][0]
    assert workers["names"] == ["worker"]
    assert SERVICES["worker"]["environment"]["TALLY_METRICS"].endswith(f":{workers['port']}")
    # Alerts go by the names of jobs.
    usual = yaml.safe_load((ROOT / "ops" / "prometheus" / "prometheus.yml").read_text())
    assert set(jobs) <= {job["job_name"] for job in usual["scrape_configs"]}
    for file in config["rule_files"]:
        assert (ROOT / "ops" / "prometheus" / file).exists()


def test_grafana_is_provisioned_where_it_looks() -> None:
    mounts = dict(volume.split(":")[:2] for volume in SERVICES["grafana"]["volumes"])
    provider = yaml.safe_load((ROOT / "ops/grafana/provisioning/dashboards/tally.yml").read_text())[
        "providers"
    ][0]
    assert mounts["./ops/grafana/dashboards"] == provider["options"]["path"]
    source = yaml.safe_load(
        (ROOT / "ops/grafana/provisioning/datasources/prometheus.yml").read_text()
    )["datasources"][0]
    assert source["url"] == "http://prometheus:9090"
    assert "127.0.0.1:9090:9090" in SERVICES["prometheus"]["ports"]


def test_the_image_is_built_in_stages_from_files_that_exist_and_runs_as_nobody_special() -> None:
    lines = DOCKERFILE.splitlines()
    assert sum(line.startswith("FROM ") for line in lines) == 2
    sources = [
        word
        for line in lines
        if line.startswith("COPY ") and "--from" not in line
        for word in line.split()[1:-1]
    ]
    assert sources
    assert all((ROOT / source).exists() for source in sources)
    assert lines.index("USER tally") < lines.index('ENTRYPOINT ["/opt/tally/bin/tally"]')
    module = re.search(r'"-m", "([\w.]+)"', DOCKERFILE)
    assert module is not None
    assert (ROOT / module[1].replace(".", "/")).with_suffix(".py").exists()


def test_kernels_are_compiled_into_the_image_for_the_user_that_runs_them() -> None:
    stage = DOCKERFILE.split("FROM ")[-1].splitlines()
    at = {line: number for number, line in enumerate(stage)}
    compiled = at["RUN /opt/tally/bin/python -m pipeline.native"]
    assert at["COPY --from=build /opt/tally /opt/tally"] < at["USER tally"] < compiled
    assert (ROOT / "pipeline" / "native" / "__main__.py").exists()
    # Where they are looked for must not depend on what a container takes for its user's home.
    kept = next(number for number, line in enumerate(stage) if "XDG_CACHE_HOME=" in line)
    assert kept < compiled
    assert stage[kept].startswith("ENV ")
    assert "XDG_CACHE_HOME=/home/tally/" in stage[kept]
    assert not any(line.startswith(("USER ", "COPY ")) for line in stage[compiled:])


def test_what_is_secret_or_large_does_not_get_into_the_image() -> None:
    ignored = set((ROOT / ".dockerignore").read_text().split())
    assert {".env", "secrets", ".git", ".venv", ".tally*"} <= ignored
