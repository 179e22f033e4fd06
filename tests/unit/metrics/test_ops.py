"""Alerts, dashboard and page say what the definitions say."""

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from pipeline.metrics.definitions.all import ALL
from pipeline.metrics.page import with_tables

ROOT = Path(__file__).parents[3]
OPS = ROOT / "ops"
PAGE = (ROOT / "docs" / "metrics.md").read_text()
RUNBOOK = (ROOT / "docs" / "runbook.md").read_text()
ALERTS: dict[str, Any] = yaml.safe_load((OPS / "prometheus" / "alerts.yml").read_text())
RULES: list[dict[str, Any]] = [rule for group in ALERTS["groups"] for rule in group["rules"]]
DASHBOARD: dict[str, Any] = json.loads((OPS / "grafana" / "dashboards" / "tally.json").read_text())

LABELS = {sample: {*one.label_names} for one in ALL for sample in one.sample_names}
LABELS |= {sample: labels | {"le"} for sample, labels in LABELS.items() if "_bucket" in sample}
OTHERS = {"up", "process_resident_memory_bytes", "process_cpu_seconds_total"}
OF_PROMETHEUS = {"job", "instance"}
CLOSED = {
    (one.name, label.name): label.values for one in ALL for label in one.labels if label.values
}
METRIC = re.compile(r"\b(?:tally_[a-z0-9_]+|process_[a-z_]+|up\b(?=[{ ]))")


def expressions() -> Iterator[tuple[str, str, str]]:
    """Where, what is asked, and the texts for people that name its labels."""
    for rule in RULES:
        yield rule["alert"], rule["expr"], " ".join(rule["annotations"].values())
    for panel in DASHBOARD["panels"]:
        for target in panel.get("targets", []):
            yield f"{panel['title']} {target['refId']}", target["expr"], target["legendFormat"]


EXPRESSIONS = list(expressions())


@pytest.mark.parametrize(("where", "asked", "shown"), EXPRESSIONS, ids=[e[0] for e in EXPRESSIONS])
def test_every_metric_and_label_that_is_asked_for_exists(
    where: str, asked: str, shown: str
) -> None:
    metrics = METRIC.findall(asked)
    assert metrics
    for name in metrics:
        assert name in LABELS or name in OTHERS, f"{name} is not exposed"
    known = OF_PROMETHEUS.union(*(LABELS.get(name, set()) for name in metrics))
    grouped = [
        label for found in re.findall(r"by \(([^)]*)\)", asked) for label in found.split(",")
    ]
    chosen = re.findall(r"[{,]\s*([a-z_]+)\s*(?:=~|!~|!=|=)", asked)
    named = re.findall(r"\{\{\s*(?:\$labels\.)?([a-z_]+)\s*\}\}", shown)
    assert {label.strip() for label in [*grouped, *chosen, *named]} <= known
    for name, label, value in re.findall(r'([a-z0-9_]+)\{([a-z_]+)!?="([^"]*)"', asked):
        assert value in CLOSED[name, label]


@pytest.mark.parametrize("rule", RULES, ids=[rule["alert"] for rule in RULES])
def test_an_alert_says_what_happened_and_what_to_do(rule: dict[str, Any]) -> None:
    told = rule["annotations"]
    assert set(told) == {"summary", "description", "action", "runbook"}
    assert all(text.strip() for text in told.values())
    assert rule["labels"]["severity"] in {"page", "ticket"}
    page, _, anchor = told["runbook"].partition("#")
    assert page == "docs/runbook.md"
    assert anchor == rule["alert"].lower()


@pytest.mark.parametrize("rule", RULES, ids=[rule["alert"] for rule in RULES])
def test_every_alert_has_an_entry_in_the_runbook(rule: dict[str, Any]) -> None:
    _, found, rest = RUNBOOK.partition(f"### {rule['alert']}\n")
    assert found, f"docs/runbook.md lacks ### {rule['alert']}"
    entry = rest.partition("\n### ")[0]
    assert entry.startswith(f"`{rule['labels']['severity']}` · ")
    for part in ("- **Means:** ", "- **Look:** ", "- **Do:** "):
        assert entry.count(part) == 1, f"{rule['alert']} should have one {part!r}"


def test_the_runbook_has_no_entry_of_an_alert_that_is_gone() -> None:
    assert re.findall(r"^### (\w+)$", RUNBOOK, re.MULTILINE) == [rule["alert"] for rule in RULES]


def test_what_must_be_noticed_has_an_alert() -> None:
    asked = " ".join(rule["expr"] for rule in RULES)
    for metric in (
        "tally_pipeline_rollup_age_seconds",
        "tally_pipeline_shard_behind_seconds",
        "tally_pipeline_shard_checkpoint_age_seconds",
        "tally_pipeline_differences",
        "tally_reads_fallback_total",
        "tally_pipeline_freshness_p99_seconds",
        "tally_worker_dead_letters_total",
        "tally_pipeline_shard_ahead_seconds",
        'up{job=~"tally.*"}',
    ):
        assert metric in asked


def test_the_dashboard_shows_every_metric_in_rows() -> None:
    asked = {name for _, expr, _ in EXPRESSIONS for name in METRIC.findall(expr)}
    assert [one.name for one in ALL if asked.isdisjoint(one.sample_names)] == []
    rows = [panel["title"] for panel in DASHBOARD["panels"] if panel["type"] == "row"]
    assert rows == ["Overview", "Shards", "Workers", "Web", "Log", "ClickHouse", "Strict"]
    ids = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len(set(ids)) == len(ids)


def test_provisioning_names_the_datasource_that_the_dashboard_asks() -> None:
    folder = OPS / "grafana" / "provisioning"
    sources = yaml.safe_load((folder / "datasources" / "prometheus.yml").read_text())
    [source] = sources["datasources"]
    used = {panel["datasource"]["uid"] for panel in DASHBOARD["panels"] if "datasource" in panel}
    assert used == {source["uid"]}
    providers = yaml.safe_load((folder / "dashboards" / "tally.yml").read_text())
    assert providers["providers"][0]["type"] == "file"


def test_prometheus_loads_the_alerts_and_calls_jobs_as_they_expect() -> None:
    config = yaml.safe_load((OPS / "prometheus" / "prometheus.yml").read_text())
    assert config["rule_files"] == ["alerts.yml"]
    assert all(job["job_name"].startswith("tally-") for job in config["scrape_configs"])


def test_the_page_has_the_tables_of_the_definitions() -> None:
    assert with_tables(PAGE) == PAGE, "run python -m pipeline.metrics.page docs/metrics.md"
    for one in ALL:
        assert f"| `{one.name}` | {one.kind} |" in PAGE
        assert one.meaning in PAGE


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed")
@pytest.mark.parametrize(
    ("what", "file"),
    [
        (("check", "rules"), "alerts.yml"),
        (("test", "rules"), "alerts_test.yml"),
        (("check", "config"), "prometheus.yml"),
    ],
)
def test_promtool_agrees(what: tuple[str, ...], file: str) -> None:
    done = subprocess.run(
        ["promtool", *what, str(OPS / "prometheus" / file)],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stdout + done.stderr
