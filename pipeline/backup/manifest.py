"""The list of what is in a backup, with checksums. It is written last: without it there is none."""

import hashlib
from pathlib import PurePosixPath

import msgspec

from pipeline import __version__
from pipeline.errors import BadInputError, OperatorError
from pipeline.local.data_folder import Marker

NAME = "tally-backup.json"
SEAL = "tally-backup.sha256"
FORMAT = 1


class Item(msgspec.Struct, frozen=True, omit_defaults=True):
    """A file, by its path in the data folder; or a link, which has a target and no content."""

    path: str
    size: int = 0
    sha256: str = ""
    mode: int = 0o644
    link: str = ""


class Manifest(msgspec.Struct, frozen=True):
    """What a backup is of, and all that is in it. Times are milliseconds since 1970."""

    format: int
    tally: str
    data: Marker
    began_ms: int
    ended_ms: int
    was_running: bool
    items: list[Item]

    @property
    def size_bytes(self) -> int:
        return sum(item.size for item in self.items)


class _Head(msgspec.Struct):
    """As much as every version of a manifest has."""

    format: int
    tally: str


def encode(manifest: Manifest) -> bytes:
    return msgspec.json.encode(manifest) + b"\n"


def seal_of(encoded: bytes) -> bytes:
    return hashlib.sha256(encoded).hexdigest().encode()


def decode(encoded: bytes, seal: bytes, what: str) -> Manifest:
    """Raises BadInputError for a damaged one, OperatorError for another version's."""
    if seal_of(encoded) != seal.strip():
        raise BadInputError(f"{what} is damaged: the checksum of its list of files is wrong")
    try:
        head = msgspec.json.decode(encoded, type=_Head)
        if head.format != FORMAT:
            raise OperatorError(
                f"{what} is a backup of format {head.format}, made by Tally {head.tally}; this "
                f"Tally {__version__} reads format {FORMAT}: restore it with version {head.tally}"
            )
        manifest = msgspec.json.decode(encoded, type=Manifest)
    except msgspec.MsgspecError as error:
        raise BadInputError(f"{what} has a list of files that cannot be read: {error}") from error
    for item in manifest.items:
        _check_path(item, what)
    return manifest


def _check_path(item: Item, what: str) -> None:
    """Nothing is ever written outside of the folder that is restored to."""
    path = PurePosixPath(item.path)
    inside = not path.is_absolute() and path.parts and ".." not in path.parts
    if inside and item.link:
        depth = len(path.parts) - 1
        for part in PurePosixPath(item.link).parts:
            depth += -1 if part == ".." else 1
            inside = inside and depth >= 0 and part != "/"
    if not inside:
        raise BadInputError(f"{what} is no backup of Tally: it has the path {item.path!r}")
