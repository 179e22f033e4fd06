"""A backup as one tar file: files in the order they were taken, then the list of them.

While it is written its name ends with .part; it gets its own name once it is on the disk whole.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import io
import os
import tarfile
from contextlib import contextmanager, suppress
from typing import IO, TYPE_CHECKING

from pipeline.backup import manifest
from pipeline.backup.manifest import Item, Manifest
from pipeline.errors import BadInputError, OperatorError, TryAgainError
from pipeline.folders import opened_folder, sync_place

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

CHUNK_BYTES = 1 << 20
PART = ".part"

_DAMAGED = (tarfile.TarError, EOFError, OSError, ValueError, OverflowError)
"""What tarfile raises for one: numbers in its headers are not all checked before they are used."""


class _Hashed(io.RawIOBase):
    """At most `size` bytes of an open file, from its beginning, with their SHA-256."""

    def __init__(self, descriptor: int, size: int, on_bytes: Callable[[int], None]) -> None:
        self.digest = hashlib.sha256()
        self._descriptor = descriptor
        self._size = size
        self._at = 0
        self._on_bytes = on_bytes

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        wanted = self._size - self._at if size < 0 else min(size, self._size - self._at)
        chunk = os.pread(self._descriptor, wanted, self._at)
        self._at += len(chunk)
        self.digest.update(chunk)
        self._on_bytes(len(chunk))
        return chunk


class ArchiveWriter:
    """Adds files to an archive. Calls block on the disk and raise OSError when it refuses."""

    def __init__(self, tar: tarfile.TarFile, on_bytes: Callable[[int], None]) -> None:
        self.items: list[Item] = []
        self._tar = tar
        self._on_bytes = on_bytes

    def add_open(self, path: str, descriptor: int, size: int, mode: int = 0o644) -> None:
        """The first `size` bytes of an open file. Raises TryAgainError if it has fewer by now."""
        content = _Hashed(descriptor, size, self._on_bytes)
        try:
            self._tar.addfile(_member(path, size, mode), content)
        except OSError as error:
            if error.errno is None:  # tarfile's own word for a file that ends early.
                raise TryAgainError(f"{path} became shorter while it was copied") from error
            raise
        self.items.append(Item(path, size, content.digest.hexdigest(), mode))

    def add_file(self, path: str, file: Path) -> None:
        """A file that does not change. Raises FileNotFoundError."""
        with file.open("rb") as content:
            found = os.fstat(content.fileno())
            self.add_open(path, content.fileno(), found.st_size, found.st_mode & 0o777)

    def add_bytes(self, path: str, content: bytes, mode: int = 0o644) -> None:
        self._tar.addfile(_member(path, len(content), mode), io.BytesIO(content))
        self._on_bytes(len(content))
        digest = hashlib.sha256(content).hexdigest()
        self.items.append(Item(path, len(content), digest, mode))

    def add_link(self, path: str, link: str) -> None:
        self.items.append(Item(path, link=link))

    def end(self, made: Manifest) -> None:
        """The list of files: from here on it is a backup."""
        encoded = manifest.encode(made)
        for name, content in ((manifest.NAME, encoded), (manifest.SEAL, manifest.seal_of(encoded))):
            self._tar.addfile(_member(name, len(content), 0o644), io.BytesIO(content))


def _member(path: str, size: int, mode: int) -> tarfile.TarInfo:
    member = tarfile.TarInfo(path)
    member.size = size
    member.mode = mode
    return member


@contextmanager
def writing(target: Path, on_bytes: Callable[[int], None]) -> Iterator[ArchiveWriter]:
    """An archive that is at `target` after the block, whole and on the disk, or not at all.

    Raises OperatorError when the disk refuses, a full one is told as such, and where somebody else
    writes one of that name, or has written it meanwhile. Where the disk takes all but the name, the
    error says that the archive is there.
    """
    draft = target.with_name(target.name + PART)
    try:
        with opened_folder(target.parent) as parent:
            with _own(draft) as file:
                with tarfile.open(fileobj=file, mode="w", format=tarfile.PAX_FORMAT) as tar:
                    yield ArchiveWriter(tar, on_bytes)
                file.flush()
                os.fsync(file.fileno())
                _publish(draft, target)
            sync_place(target, parent)
    except OSError as error:
        raise OperatorError(_refusal(target, error)) from error


@contextmanager
def _own(draft: Path) -> Iterator[IO[bytes]]:
    """The draft, new and nobody else's until the block ends, when it is removed.

    Raises OperatorError where somebody writes it, and OSError.
    """
    while True:
        _remove_left(draft)
        try:
            # Copies of data folders hold whatever secrets lie in them.
            file = _opened(draft, os.O_CREAT | os.O_EXCL)
        except FileExistsError:
            continue  # Somebody else was faster, and holds it by now, or is held up.
        with file:
            # Before it was held, somebody may have taken it for one that was left, and removed it.
            if not _hold(file) or not _is_at(file, draft):
                continue
            try:
                yield file
            finally:
                with suppress(OSError):
                    if _is_at(file, draft):
                        draft.unlink()
            return


def _remove_left(draft: Path) -> None:
    """Remove the draft that somebody left who was killed, if there is one.

    Raises OperatorError where somebody writes it, and OSError. It is never written to: it may be a
    finished backup's second name (`_publish`), and that one may be called anything by now.
    """
    try:
        left = _opened(draft)
    except FileNotFoundError:
        return
    with left:
        if not _hold(left):
            raise OperatorError(f"somebody writes {draft} already: choose another name")
        # Who had it before has removed it, perhaps, and another one is there.
        if _is_at(left, draft):
            draft.unlink()


def _opened(draft: Path, flags: int = 0) -> IO[bytes]:
    flags |= os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW
    return os.fdopen(os.open(draft, flags, 0o600), "r+b")


def _hold(file: IO[bytes]) -> bool:
    """Whether it is this process's until it is closed; False where somebody else holds it."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is_at(file: IO[bytes], path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(file.fileno()), path.lstat())
    except FileNotFoundError:
        return False


def _publish(draft: Path, target: Path) -> None:
    """Give the archive its name, if nobody else has it. Raises OSError.

    It has two names then, until the draft is removed, and keeps both after a kill in between.
    """
    try:
        os.link(draft, target)
    except FileExistsError:
        raise
    except OSError:
        # A file system without links: then the name is not taken, as far as one can tell.
        if target.exists():
            raise
        draft.replace(target)


def _refusal(target: Path, error: OSError) -> str:
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return (
            f"there is no room for {target} ({error.strerror}); nothing was left there: free some, "
            "or choose another place"
        )
    about = f" {error.filename}" if error.filename else ""
    return f"cannot write {target}: {error.strerror or error}{about}"


def _member_within(file_bytes: int) -> type[tarfile.TarInfo]:
    """What stands for members of a file of this size. tarfile believes what their headers say: it
    asks for memory for a large one, and after one below 0 some versions of Python read the same
    members for ever."""

    class Member(tarfile.TarInfo):
        def _block(self, count: int) -> int:
            if not 0 <= count <= file_bytes:
                raise tarfile.ReadError(f"{self.name!r} has a size of {count}")
            blocks: int = super()._block(count)  # type: ignore[misc]  # typeshed leaves it out
            return blocks

    return Member


class ArchiveReader:
    """A backup that is read. Its list of files is there; its content is checked as it is read."""

    def __init__(self, tar: tarfile.TarFile, what: str) -> None:
        """Raises BadInputError for what is no whole backup, OperatorError for another version's."""
        self._tar = tar
        self._what = what
        try:
            # By name, and without reading content: a backup's size does not matter here.
            self._members = {member.name: member for member in tar.getmembers()}
            encoded = self._small(manifest.NAME)
            self.manifest = manifest.decode(encoded, self._small(manifest.SEAL), what)
        except _DAMAGED as error:
            raise _damaged(what, str(error)) from error

    def _small(self, name: str) -> bytes:
        content = self._content(name)
        if content is None:
            raise BadInputError(
                f"{self._what} is no whole backup of Tally: it lacks its list of files, which is "
                "written last; take another one"
            )
        return content.read()

    def _content(self, name: str) -> IO[bytes] | None:
        """None also for a file with holes, as no backup has one: it may be of any size."""
        member = self._members.get(name)
        is_plain = member is not None and member.isreg() and not member.issparse()
        return self._tar.extractfile(member) if member is not None and is_plain else None

    def extract(self, item: Item, target: Path, on_bytes: Callable[[int], None]) -> None:
        """Write a file, which is not there yet, and check it; it is not synced.

        Raises BadInputError and OSError.
        """
        content = self._content(item.path)
        if content is None:
            raise _damaged(self._what, f"{item.path} is missing")
        digest, size = hashlib.sha256(), 0
        with target.open("xb") as file:
            os.fchmod(file.fileno(), item.mode & 0o777)
            while chunk := self._read(content, item):
                digest.update(chunk)
                size += len(chunk)
                file.write(chunk)
                on_bytes(len(chunk))
        if (size, digest.hexdigest()) != (item.size, item.sha256):
            raise _damaged(self._what, f"{item.path} has another checksum than when it was taken")

    def _read(self, content: IO[bytes], item: Item) -> bytes:
        try:
            return content.read(CHUNK_BYTES)
        except (tarfile.TarError, EOFError) as error:
            raise _damaged(self._what, f"{item.path}: {error}") from error


def _damaged(what: str, why: str) -> BadInputError:
    return BadInputError(f"{what} is damaged ({why}): use another backup")


@contextmanager
def reading(source: Path) -> Iterator[ArchiveReader]:
    """Raises BadInputError for what is no backup, OperatorError for a file that is not there."""
    try:
        member = _member_within(source.stat().st_size)
        tar = tarfile.open(source, "r:", tarinfo=member)  # noqa: SIM115 - closed below
    except (tarfile.TarError, ValueError, OverflowError) as error:
        raise BadInputError(f"{source} is no backup of Tally: {error}") from error
    except OSError as error:
        raise OperatorError(f"cannot read {source}: {error.strerror}") from error
    with tar:
        yield ArchiveReader(tar, str(source))
