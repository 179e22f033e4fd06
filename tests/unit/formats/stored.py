"""The files in tests/fixtures/formats."""

import json
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent.parent.parent / "fixtures" / "formats"


def stored(name: str) -> bytes:
    return (FOLDER / name).read_bytes()


def document(name: str) -> Any:
    return json.loads(stored(name))


def pairs(name: str) -> list[tuple[bytes, bytes]]:
    """Keys and values of records."""
    return [(bytes.fromhex(key), bytes.fromhex(value)) for key, value in document(name)]
