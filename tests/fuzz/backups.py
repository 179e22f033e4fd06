"""A backup, as `tally restore` reads it: the tar file itself, or a list of files in a right one.

The first byte tells which: after 0 comes a list, which is sealed and put into an archive of a few
files; after anything else, a whole archive.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path

import msgspec

from pipeline.backup import manifest
from pipeline.backup.archive import reading
from pipeline.backup.manifest import Item, Manifest
from pipeline.backup.restoring import _extract
from pipeline.backup.taking import Tell
from pipeline.errors import BadInputError, OperatorError
from pipeline.local import data_folder
from pipeline.local.data_folder import Marker
from tests.kit.tar_heads import tar_head

PROMISE = "the files that a backup lists, checked, none outside of the folder; or why it is refused"

_FILES = {"a": b"some bytes", "log/b": b"", "log/c/d": b"x" * 600, "s/a": b"some bytes"}
_SIZE_MAX = 1 << 20
"""Of what is restored: an archive holds all of it, and inputs are small."""


def seeds() -> list[bytes]:
    items = [_item(path) for path in ("a", "log/b", "log/c/d")]
    links = [Item("l", link="log/c"), Item("log/up", link="../a"), Item("m", link="log")]
    odd = [
        Item("../x", 10, items[0].sha256),
        Item("a\0b", 10, items[0].sha256),
        Item("a/b", 10, items[0].sha256),
        Item("m/e", 10, items[0].sha256),
        Item("n", link="/etc"),
        Item("a", 10, items[0].sha256, -1),
        Item("o" * 300, link="p" * 5000),
    ]
    lists = [_listed([*items, *links]), *(_listed([*links, *items, one]) for one in odd)]
    # Found: each link stays inside by its own text, and the third file was written outside.
    lists.append(_listed([Item("log/r", link=".."), Item("s", link="log/r/.."), _item("s/a")]))
    future = _listed([], Marker(1, "9", "9" * 5000))
    nested = _listed(items)[:-2] + b',"x":' + b"[" * 3000
    return [
        *(b"\0" + one for one in (*lists, future, nested, b'{"format":2,"tally":"9"}', b"\xff")),
        *(b"\1" + one for one in _archives(lists[0])),
    ]


def _archives(listed: bytes) -> list[bytes]:
    whole = _packed(listed)
    sparse = tarfile.TarInfo(manifest.NAME)
    sparse.pax_headers = {"GNU.sparse.major": "0", "GNU.sparse.size": "x", "GNU.sparse.map": "1,2"}
    large = tarfile.TarInfo(manifest.NAME)
    large.pax_headers = {
        "GNU.sparse.major": "0",
        "GNU.sparse.size": str(1 << 40),
        "GNU.sparse.map": "0,0",
    }
    return [
        whole,
        whole[:700],
        # Found: it was read for ever, as where the next member begins is reckoned from a size.
        tar_head("b", 0) * 2 + tar_head("b", -1024) + bytes(1024),
        # Found: so much memory was asked for.
        tar_head("b", 0) + tar_head("b", 1 << 50, tarfile.XHDTYPE) + bytes(1024),
        *(_packed(listed, one) for one in (sparse, large)),
    ]


def _item(path: str) -> Item:
    content = _FILES[path]
    return Item(path, len(content), hashlib.sha256(content).hexdigest())


def _listed(items: list[Item], data: Marker | None = None) -> bytes:
    found = data or data_folder.present()
    return manifest.encode(Manifest(manifest.FORMAT, "1", found, 1, 2, True, items))


def _packed(listed: bytes, head: tarfile.TarInfo | None = None) -> bytes:
    """As a backup is, of these files and a list that may tell of others."""
    packed = io.BytesIO()
    members = {**_FILES, manifest.NAME: listed, manifest.SEAL: manifest.seal_of(listed)}
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for name, content in members.items():
            member = head if head and head.name == name else tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return packed.getvalue()


def check(data: bytes) -> None:
    with _room() as room:
        (room / "backup").write_bytes(data[1:] if data[:1] != b"\0" else _packed(data[1:]))
        target = room / "target"
        target.mkdir()
        try:
            restored = _restored(room / "backup", target)
        except (BadInputError, OperatorError) as error:
            assert str(error)
            restored = None
        assert {one.name for one in room.iterdir()} == {"backup", "target"}, "nothing is outside"
        if restored is not None:
            _is_all_there(restored, target)


def _restored(backup: Path, target: Path) -> Manifest | None:
    """As a restore does it, but for the disk's own business; None if the disk refuses."""
    with reading(backup) as archive:
        data_folder.check(archive.manifest.data, "it")
        with contextlib.suppress(OSError):
            _extract(archive, target, Tell())
            return archive.manifest
    return None


def _is_all_there(restored: Manifest, target: Path) -> None:
    for item in restored.items:
        if item.link:
            leads_to = os.path.realpath(target / item.path)
            assert Path(leads_to).is_relative_to(target), "no link leads outside"
        else:
            content = (target / item.path).read_bytes()
            assert len(content) == item.size <= _SIZE_MAX
            assert hashlib.sha256(content).hexdigest() == item.sha256
    msgspec.json.encode(restored)


@contextlib.contextmanager
def _room() -> Iterator[Path]:
    """A folder, in memory where that is to be had."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as name:
        yield Path(name)
