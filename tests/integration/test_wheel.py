"""The wheel, installed elsewhere: `tally demo` runs, counts, stops tidily and goes on."""

import json
import os
import re
import signal
import subprocess
import sys
import sysconfig
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from pipeline import __version__
from tests.kit.processes import Process
from tests.kit.waiting import eventually, is_alive

ROOT = Path(__file__).parents[2]
PIP = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet")
FREE_PORTS = ("--kafka-port", "0", "--clickhouse-port", "0", "--web-port", "0")
START_TIMEOUT_S = 150

pytestmark = pytest.mark.timeout(500)


def run(*command: str | Path, cwd: Path, **env: str) -> str:
    """What a command prints; it knows nothing of the repository."""
    done = subprocess.run(
        [str(part) for part in command],
        check=False,
        capture_output=True,
        text=True,
        timeout=120,
        cwd=cwd,
        env={**clean(), **env},
    )
    assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
    return done.stdout


def clean() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    # Without isolation the backend is the one that is pinned, and nothing is fetched.
    build = ("wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", str(folder), str(ROOT))
    run(*PIP, *build, cwd=folder)
    (found,) = folder.glob("*.whl")
    return found


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder `bin` of an environment that has the wheel, and this one's other packages."""
    folder = tmp_path_factory.mktemp("elsewhere")
    run(sys.executable, "-m", "venv", "--without-pip", folder / "venv", cwd=folder)
    python = folder / "venv" / "bin" / "python"
    run(*PIP, "--python", str(python), "install", "--no-deps", "--no-index", str(wheel), cwd=folder)
    paths = 'import sysconfig; print(sysconfig.get_paths()["purelib"])'
    purelib = Path(run(python, "-c", paths, cwd=folder).strip())
    # What a .pth in that folder adds, such as this repository, is not added by naming the folder.
    (purelib / "others.pth").write_text(sysconfig.get_paths()["purelib"] + "\n")
    return python.parent


def test_the_version_is_in_one_place_and_is_what_tally_says(wheel: Path, installed: Path) -> None:
    assert wheel.name.split("-")[1] == __version__
    assert run(installed / "tally", "--version", cwd=wheel.parent) == f"tally {__version__}\n"
    assert "version" not in re.findall(r"(?m)^(\w+) =", (ROOT / "pyproject.toml").read_text())


def test_the_demo_runs_from_the_wheel_stops_tidily_and_goes_on(
    installed: Path, tmp_path: Path
) -> None:
    told = "import pipeline; print(pipeline.__file__)"
    where = run(installed / "python", "-c", told, cwd=tmp_path)
    assert Path(where.strip()).is_relative_to(installed.parent)
    first = demo(installed, tmp_path, "first.txt")
    second = demo(installed, tmp_path, "second.txt")
    assert "A new demo" in first["printed"]
    assert "goes on where it was" not in first["printed"]
    assert "A new demo" not in second["printed"]
    assert "goes on where it was" in second["printed"]
    assert second["count"] > first["count"] > 0


def demo(installed: Path, folder: Path, output: str) -> dict[str, Any]:
    """Start it, see counters, ask for one, and press Ctrl-C."""
    data = folder / "data"
    command: list[str | Path] = [installed / "tally", "demo", "--data", data]
    command += ["--rate", "300", *FREE_PORTS]
    with Process(command, output_path=folder / output, cwd=folder, env=clean()) as process:
        process.wait_for_line(r"posts liked, last 5 min", timeout_s=START_TIMEOUT_S)
        process.wait_for_line(r"post-1 +[0-9]", timeout_s=60)
        addresses = json.loads((data / "addresses.json").read_text())
        answer = run(
            *(installed / "tally", "count", "likes:post-1", "--json"),
            cwd=folder,
            TALLY_CLICKHOUSE=addresses["clickhouse"],
        )
        process.send(signal.SIGINT)
        assert process.wait(timeout_s=60) == 0
        printed = process.output()
    assert "Nothing runs any more" in printed
    assert "Traceback" not in printed
    assert not (data / "addresses.json").exists()
    for pid in addresses["pids"].values():
        eventually(partial(_is_gone, pid), f"process {pid} is gone")
    return {"printed": printed, "count": json.loads(answer)["total"]}


def _is_gone(pid: int) -> bool:
    return not is_alive(pid)
