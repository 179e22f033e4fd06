"""kcat, where it is installed: people reach for it first."""

import json
import shutil
import subprocess

import pytest

from tests.integration.log.clients import Clients


def kcat(clients: Clients, *arguments: str, given: bytes = b"") -> bytes:
    """Run kcat against the broker, at most 20 s; skip where it is not installed."""
    program = shutil.which("kcat")
    if program is None:
        pytest.skip("kcat is not installed")
    command = [program, "-q", "-b", clients.bootstrap, *arguments]
    return subprocess.run(command, input=given, capture_output=True, check=True, timeout=20).stdout


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_kcat_produces_and_consumes(clients: Clients, codec: str) -> None:
    topic = clients.topic()
    lines = b"".join(b"key:%d\n" % n for n in range(1000))
    kcat(clients, "-P", "-t", topic, "-K:", "-z", codec, given=lines)
    assert kcat(clients, "-C", "-t", topic, "-K:", "-e", "-o", "beginning") == lines


def test_kcat_lists_the_topics(clients: Clients) -> None:
    topic = clients.topic(partitions=3)
    metadata = json.loads(kcat(clients, "-L", "-J"))
    found = {entry["topic"]: len(entry["partitions"]) for entry in metadata["topics"]}
    assert found[topic] == 3
