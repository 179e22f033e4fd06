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
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise BadInputError(f"{what} has a list of files that cannot be read: {error}") from error
    links = frozenset(PurePosixPath(item.path).parts for item in manifest.items if item.link)
    for item in manifest.items:
        if not _is_inside(item, links):
            raise BadInputError(f"{what} is no backup of Tally: it has the path {item.path!r}")
    return manifest


def _is_inside(item: Item, links: frozenset[tuple[str, ...]]) -> bool:
    """Whether neither it nor what it links to can be outside of the folder that is restored to.

    Neither leads through one of the links: several that stay inside, each by its own text, may
    together lead outside.
    """
    path = PurePosixPath(item.path)
    if path.is_absolute() or not path.parts or ".." in path.parts or "\0" in item.path + item.link:
        return False
    passed = [path.parts[:size] for size in range(1, len(path.parts))]
    at = list(path.parts[:-1])
    for part in PurePosixPath(item.link).parts:
        passed.append(tuple(at))
        if part == "/" or (part == ".." and not at):
            return False
        at = at[:-1] if part == ".." else [*at, part]
    return not links.intersection(passed)
