"""How far a file was sent, kept beside it, so that an interrupted run can go on."""

from __future__ import annotations

import hashlib
import os
from typing import TYPE_CHECKING, Annotated, BinaryIO

import msgspec

from pipeline.errors import BadInputError, OperatorError

if TYPE_CHECKING:
    from pathlib import Path

    from pipeline.clock import Clock

SAVE_INTERVAL_S = 1.0
SAMPLE_BYTES = 64 * 1024
SUFFIX = ".tally-progress"

_VERSION = 1
_Whole = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]


class FileMark(msgspec.Struct, frozen=True):
    """Which file it is: how long it was, and a hash of that with its first and last bytes."""

    size: _Whole
    fingerprint: Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{16}$")]


class Progress(msgspec.Struct):
    """Up to byte `offset`, which is the end of line `lines`, every line is accounted for.

    It is `sent` and stored, `refused`, or `unknown`, that is told to its sender as such. With
    `once`, lines without an id got one. `receipt` is the last offset by partition, as text.
    """

    size: _Whole
    fingerprint: str
    once: bool = False
    offset: _Whole = 0
    lines: _Whole = 0
    sent: _Whole = 0
    refused: _Whole = 0
    unknown: _Whole = 0
    receipt: str = ""
    version: _Whole = _VERSION


def mark(file: BinaryIO, size: int | None = None) -> FileMark:
    """The mark of a file, or of its first `size` bytes; the file stands at its begin afterwards.

    Raises BadInputError if it is shorter.
    """
    found = file.seek(0, os.SEEK_END)
    size = found if size is None else size
    if found < size:
        raise BadInputError(f"it has {found} bytes and had {size}")
    digest = hashlib.blake2b(str(size).encode(), digest_size=8)
    for begin in (0, max(0, size - SAMPLE_BYTES)):
        file.seek(begin)
        digest.update(file.read(min(SAMPLE_BYTES, size - begin)))
    file.seek(0)
    return FileMark(size, digest.hexdigest())


class ProgressFile:
    """`FILE.tally-progress`. What it writes is there whole or not at all."""

    def __init__(self, file: Path, clock: Clock) -> None:
        self.path = file.with_name(file.name + SUFFIX)
        self._clock = clock
        self._saved_s = clock.monotonic_s()

    @property
    def exists(self) -> bool:
        return self.path.exists()

    def load(self, file: BinaryIO) -> Progress:
        """Raises OperatorError where there is none, BadInputError where it is another file's."""
        try:
            progress = msgspec.json.decode(self.path.read_bytes(), type=Progress)
        except FileNotFoundError:
            raise OperatorError(
                f"{self.path} is not there, so there is nothing to go on with: nothing was sent, "
                "or all of it"
            ) from None
        except (OSError, msgspec.MsgspecError) as error:
            raise OperatorError(f"{self.path} cannot be read: {error}") from error
        if progress.version != _VERSION:
            raise OperatorError(f"{self.path} is of another version of Tally: {progress.version}")
        try:
            is_same = mark(file, progress.size).fingerprint == progress.fingerprint
        except BadInputError as error:
            raise BadInputError(f"{self.path} is of another file: {error}") from None
        if not is_same:
            raise BadInputError(f"{self.path} is of another file: its bytes differ")
        return progress

    def save(self, progress: Progress) -> None:
        """Blocks until it is on the disk. Raises OperatorError."""
        draft = self.path.with_name(self.path.name + ".new")
        try:
            with draft.open("wb") as file:
                file.write(msgspec.json.encode(progress) + b"\n")
                file.flush()
                os.fsync(file.fileno())
            draft.replace(self.path)
        except OSError as error:
            raise OperatorError(
                f"cannot write {self.path}: {error.strerror}; without it, send the file by "
                "tally produce - <FILE"
            ) from error
        self._saved_s = self._clock.monotonic_s()

    def save_now_and_then(self, progress: Progress) -> None:
        """Save, if that is a second ago."""
        if self._clock.monotonic_s() - self._saved_s >= SAVE_INTERVAL_S:
            self.save(progress)

    def remove(self) -> None:
        self.path.unlink(missing_ok=True)
