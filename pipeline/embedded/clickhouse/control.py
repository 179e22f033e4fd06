"""How a process that may read the data folder finds the door, and proves that it may.

In its folder the door writes a file that only its user can read, with its address and a key that
is made anew at each start. Who has the folder has everything in it anyway, so no token is asked of
whoever shows the key.
"""

from __future__ import annotations

import hmac
import os
import secrets
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from pathlib import Path

FILE = "control.json"
KEY_HEADER = "X-Tally-Folder-Key"
FREEZE_PATH = "/tally/freeze"
THAW_PATH = "/tally/thaw"


class Frozen(msgspec.Struct, frozen=True):
    """The answer to a freeze: where the copy is, how many files and links it has, and for how long
    statements that write had to wait."""

    folder: str
    files: int
    held_ms: float


class Control(msgspec.Struct, frozen=True):
    """Where the door is, and the key to what only the folder's owner may ask."""

    host: str
    port: int
    key: str

    def admits(self, key: str) -> bool:
        return hmac.compare_digest(self.key.encode(), key.encode())


def write_control(folder: Path, host: str, port: int) -> Control:
    """A new key, written for the folder's owner alone. Raises OSError."""
    control = Control(host, port, secrets.token_urlsafe(32))
    draft = folder / f"{FILE}.new"
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(msgspec.json.encode(control))
    draft.rename(folder / FILE)
    return control


def remove_control(folder: Path) -> None:
    """What an earlier door wrote is no longer true."""
    (folder / FILE).unlink(missing_ok=True)


def read_control(folder: Path) -> Control | None:
    """What a running door wrote; None where there is none that can be read."""
    try:
        return msgspec.json.decode((folder / FILE).read_bytes(), type=Control)
    except (OSError, msgspec.MsgspecError):
        return None
