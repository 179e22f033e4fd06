"""ops/secrets.sh makes what docker-compose.yml asks for, once."""

import json
import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]


def run_script(folder: Path) -> None:
    wrapper = folder / "tally"
    wrapper.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m pipeline.cli "$@"\n')
    wrapper.chmod(0o755)
    done = subprocess.run(
        [str(folder / "ops" / "secrets.sh")],
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "TALLY": str(wrapper), "PYTHONPATH": str(ROOT)},
    )
    assert done.returncode == 0, done.stderr


def test_passwords_and_tokens_are_made_once_and_are_nobody_elses(tmp_path: Path) -> None:
    (tmp_path / "ops").mkdir()
    shutil.copy(ROOT / "ops" / "secrets.sh", tmp_path / "ops")
    run_script(tmp_path)
    names = [".env", "secrets/tokens.toml", "secrets/prometheus_token", "secrets/my_token.json"]
    first = {name: (tmp_path / name).read_text() for name in names}
    passwords = dict(line.split("=") for line in first[".env"].splitlines())
    assert set(passwords) == {"CLICKHOUSE_PASSWORD", "GRAFANA_PASSWORD"}
    assert all(len(password) == 48 and password.isalnum() for password in passwords.values())
    assert (tmp_path / ".env").stat().st_mode & 0o077 == 0
    tokens = tomllib.loads(first["secrets/tokens.toml"])["tokens"]
    assert tokens["prometheus"]["read"] == ["*"]
    assert tokens["prometheus"].get("write", []) == []
    assert first["secrets/prometheus_token"].startswith("tally_")
    assert "\n" not in first["secrets/prometheus_token"]
    assert json.loads(first["secrets/my_token.json"])["token"].startswith("tally_")
    run_script(tmp_path)
    assert first == {name: (tmp_path / name).read_text() for name in names}
