"""axe-core, which checks pages for what keeps people from using them; npm fetches it."""

import shutil
import subprocess
import tarfile
from pathlib import Path
from typing import Any

from tests.kit.chromium import Browser, required

VERSION = "4.14.0"
FETCH_TIMEOUT_S = 60
SERIOUS = frozenset({"serious", "critical"})


def axe_script(folder: Path) -> str:
    """The script, from npm. Skips the test where it cannot be had; see `required`."""
    npm = shutil.which("npm")
    if npm is None:
        required("no axe-core: npm is not installed")
    done = subprocess.run(
        [str(npm), "pack", "--silent", f"axe-core@{VERSION}"],
        cwd=folder,
        check=False,
        capture_output=True,
        text=True,
        timeout=FETCH_TIMEOUT_S,
    )
    if done.returncode:
        required(f"no axe-core: npm cannot fetch it: {done.stderr.strip()[:300]}")
    with tarfile.open(folder / f"axe-core-{VERSION}.tgz") as archive:
        found = archive.extractfile("package/axe.min.js")
        assert found is not None
        return found.read().decode()


def findings(browser: Browser, script: str) -> list[str]:
    """What is serious or worse on the page as it is now, one line for each place."""
    if not browser.run("return Boolean(window.axe)"):
        browser.run(script)
    browser.driver.set_script_timeout(30)
    found: list[dict[str, Any]] = browser.driver.execute_async_script(
        "const done = arguments[arguments.length - 1];"
        "axe.run(document).then((found) => done(found.violations))"
    )
    return [
        f"{one['id']} ({one['impact']}): {node['html'][:200]}: {node['failureSummary']}"
        for one in found
        if one["impact"] in SERIOUS
        for node in one["nodes"]
    ]
