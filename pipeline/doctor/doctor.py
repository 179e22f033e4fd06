"""`tally doctor`: looks at this machine and at the servers, and says what is not as it should be.

It changes nothing but for one tombstone in the plan's topic, which tells the log's clock.
"""

from __future__ import annotations

import importlib.metadata
import platform
import resource
import shutil
import socket
import sys
import tempfile
from typing import TYPE_CHECKING

from pipeline.doctor.findings import Finding, free_space, open_files
from pipeline.doctor.servers import look_at_clickhouse, look_at_kafka, look_at_rules
from pipeline.errors import TallyError, TryAgainError
from schemas.host_port import split_host_port

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from pipeline.clock import Clock
    from schemas.settings import Settings

PYTHON_MIN = (3, 11)
# fmt: off
PACKAGES = (
    "aiokafka", "chdb", "clickhouse-connect", "confluent-kafka", "faust-streaming", "pyarrow",
)
# fmt: on
_CONNECT_TIMEOUT_S = 2.0


def examine(settings: Settings, data: Path, clock: Clock) -> Iterator[Finding]:
    """One finding after the other, as they become known. Blocks for some seconds; never raises."""
    yield _python()
    yield _packages()
    yield open_files(resource.getrlimit(resource.RLIMIT_NOFILE)[0])
    yield from _folder(data)
    yield from _ports(settings)
    kafka = _asked("Kafka", lambda: look_at_kafka(settings, clock))
    yield from kafka
    clickhouse = _asked("ClickHouse", lambda: look_at_clickhouse(settings, clock))
    yield from clickhouse
    if len(kafka) > 1 and len(clickhouse) > 1:
        yield from _asked("rules", lambda: look_at_rules(settings, clock))


def _asked(name: str, look: Callable[[], list[Finding]]) -> list[Finding]:
    """What was found; a single failure when nobody answered."""
    try:
        return look()
    except TryAgainError as error:
        to_do = "start it (`tally up` runs one), or correct its address" if name != "rules" else ""
        return [Finding(name, "fail", str(error), to_do)]
    except TallyError as error:
        return [Finding(name, "fail", str(error))]


def _python() -> Finding:
    version = platform.python_version()
    if sys.version_info < PYTHON_MIN:
        return Finding("Python", "fail", version, "install Python 3.11 or later")
    return Finding("Python", "ok", f"{version} on {platform.system()} {platform.machine()}")


def _packages() -> Finding:
    versions, missing = [], []
    for name in PACKAGES:
        try:
            versions.append(f"{name} {importlib.metadata.version(name)}")
        except importlib.metadata.PackageNotFoundError:
            missing.append(name)
    if missing:
        return Finding("packages", "fail", f"missing: {', '.join(missing)}", "install Tally anew")
    return Finding("packages", "ok", ", ".join(versions))


def _folder(data: Path) -> Iterator[Finding]:
    """The data folder of `tally up`, or where it would be made."""
    name = "data folder"
    folder = data.absolute()
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    there = f"{data} is" if folder == data.absolute() else f"{data} is not there yet; {folder} is"
    try:
        with tempfile.TemporaryFile(dir=folder):
            pass
        usage = shutil.disk_usage(folder)
    except OSError as error:
        to_do = "choose another with --data, or mend its permissions"
        yield Finding(name, "fail", f"{folder} cannot be written ({error.strerror})", to_do)
        return
    yield Finding(name, "ok", f"{there} writable")
    yield free_space("disk", usage.free, usage.total)


def _ports(settings: Settings) -> Iterator[Finding]:
    """Whether somebody listens where the servers are or would be."""
    addresses = {
        "Kafka": settings.kafka.first,
        "ClickHouse": settings.clickhouse.host_port,
        "web": split_host_port(settings.web),
    }
    for name, (host, port) in addresses.items():
        try:
            with socket.create_connection((host, port), timeout=_CONNECT_TIMEOUT_S):
                detail = "somebody listens"
        except ConnectionRefusedError:
            detail = "free"
        except OSError as error:
            to_do = f"check the host, the network, and TALLY_{name.upper()}"
            yield Finding(f"port of {name}", "fail", f"{host}:{port}: {error}", to_do)
            continue
        yield Finding(f"port of {name}", "ok", f"{host}:{port}: {detail}")
