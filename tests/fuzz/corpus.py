"""The inputs that are kept: small ones that reach something which no other does.

A file's name is the beginning of its content's SHA-256, so the same input is kept once.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

FOLDER = Path(__file__).parent / "corpus"
FINDINGS = Path(__file__).parent / "findings"
INPUT_BYTES_MAX = 16_384
"""Of an input that a run makes up."""

TARGET_BYTES_MAX = 12_000
"""Of all inputs of a target that are kept."""


def folder_of(target: str) -> Path:
    """Where a target's inputs are. Pure."""
    return FOLDER / target


def kept(target: str) -> list[bytes]:
    """The inputs of a target in the order of their names. Reads the disk."""
    folder = folder_of(target)
    return [path.read_bytes() for path in sorted(folder.glob("*")) if path.is_file()]


def keep(folder: Path, data: bytes) -> Path:
    """Write an input under its name; the same one again changes nothing."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / hashlib.sha256(data).hexdigest()[:16]
    path.write_bytes(data)
    return path
