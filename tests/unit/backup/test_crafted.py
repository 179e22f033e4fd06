"""Backups that nobody takes: made by hand, or damaged where it shows late. They are refused, and
nothing is written outside of the folder."""

import hashlib
import io
import tarfile
from pathlib import Path

import msgspec
import pytest

from pipeline.backup import manifest
from pipeline.backup.manifest import Item, Manifest
from pipeline.backup.restoring import restore
from pipeline.backup.taking import Tell
from pipeline.errors import BadInputError, OperatorError
from pipeline.local import data_folder
from pipeline.local.data_folder import Marker
from tests.kit.tar_heads import tar_head

CONTENT = b"some bytes"


def a_list(items: list[Item], data: Marker | None = None) -> bytes:
    found = data or data_folder.present()
    return manifest.encode(Manifest(manifest.FORMAT, "9.9", found, 1, 2, True, items))


def a_file(path: str) -> Item:
    return Item(path, len(CONTENT), hashlib.sha256(CONTENT).hexdigest())


def pack(target: Path, listed: bytes, *members: tarfile.TarInfo, **files: bytes) -> Path:
    """An archive of files and a list, sealed; members that are given replace those of their name.

    A file's name has "/" where its argument has "__".
    """
    given = {member.name: member for member in members}
    contents = {name.replace("__", "/"): content for name, content in files.items()}
    contents |= {manifest.NAME: listed, manifest.SEAL: manifest.seal_of(listed)}
    with tarfile.open(target, "w", format=tarfile.PAX_FORMAT) as tar:
        for name, content in contents.items():
            member = given.get(name, tarfile.TarInfo(name))
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return target


def refusal(source: Path, folder: Path) -> str:
    """Why it is refused; nothing is left of the attempt."""
    before = sorted(folder.parent.iterdir())
    with pytest.raises((BadInputError, OperatorError)) as told:
        restore(source, folder, Tell())
    assert sorted(folder.parent.iterdir()) == before
    return str(told.value)


def test_a_file_is_not_written_through_links_that_together_lead_outside(tmp_path: Path) -> None:
    """Each of them stays inside by its own text: the first leads to the folder itself."""
    links = [Item("log/up", link=".."), Item("out", link="log/up/..")]
    listed = a_list([*links, a_file("out/written")])
    source = pack(tmp_path / "b.tar", listed, out__written=CONTENT)
    assert "no backup of Tally" in refusal(source, tmp_path / "data")


def test_no_link_leads_through_another(tmp_path: Path) -> None:
    listed = a_list([Item("log/up", link=".."), Item("out", link="log/up/..")])
    assert "no backup of Tally" in refusal(pack(tmp_path / "b.tar", listed), tmp_path / "data")


def test_links_as_an_engine_has_them_are_brought_back(tmp_path: Path) -> None:
    items = [
        a_file("clickhouse/engine/store/a/b/file"),
        Item("clickhouse/engine/data/tally/cells", link="../../store/a/b"),
        Item("clickhouse/engine/metadata/tally", link="../store/a"),
    ]
    source = pack(tmp_path / "b.tar", a_list(items), clickhouse__engine__store__a__b__file=CONTENT)
    restore(source, tmp_path / "data", Tell())
    engine = tmp_path / "data/clickhouse/engine"
    assert (engine / "data/tally/cells/file").read_bytes() == CONTENT
    assert (engine / "metadata/tally").readlink() == Path("../store/a")


@pytest.mark.parametrize(
    "item",
    [Item("a\0b/c"), Item("log/b", link="a\0b"), Item("a\0b", link="c")],
    ids=["a folder", "a target", "a link"],
)
def test_a_path_that_no_disk_takes_is_refused(item: Item, tmp_path: Path) -> None:
    source = pack(tmp_path / "b.tar", a_list([item]))
    assert "no backup of Tally" in refusal(source, tmp_path / "data")


def test_a_list_that_nests_too_deep_is_refused(tmp_path: Path) -> None:
    listed = a_list([]).rstrip(b"}\n") + b',"x":' + b"[" * 3000
    source = pack(tmp_path / "b.tar", listed)
    assert "cannot be read" in refusal(source, tmp_path / "data")


def test_an_engine_of_a_number_that_never_ends_is_refused(tmp_path: Path) -> None:
    source = pack(tmp_path / "b.tar", a_list([], Marker(1, "9.9", "9" * 5000)))
    assert "engine 999" in refusal(source, tmp_path / "data")


def test_a_marker_that_nests_too_deep_is_told(tmp_path: Path) -> None:
    nested = msgspec.json.encode(data_folder.present())[:-1] + b',"x":' + b"[" * 3000
    (tmp_path / data_folder.MARKER).write_bytes(nested)
    with pytest.raises(OperatorError, match="cannot be read"):
        data_folder.read_marker(tmp_path)


@pytest.mark.parametrize(
    "headers",
    [
        {"GNU.sparse.major": "0", "GNU.sparse.size": str(1 << 40), "GNU.sparse.map": "0,0"},
        {"GNU.sparse.major": "0", "GNU.sparse.size": "x", "GNU.sparse.map": "0,0"},
    ],
    ids=["a terabyte of nothing", "no number"],
)
def test_a_list_with_holes_in_it_is_refused(headers: dict[str, str], tmp_path: Path) -> None:
    """It would be read whole, into memory that nobody has."""
    holes = tarfile.TarInfo(manifest.NAME)
    holes.pax_headers = headers
    source = pack(tmp_path / "b.tar", a_list([]), holes)
    assert refusal(source, tmp_path / "data")


@pytest.mark.timeout(20)
def test_a_file_of_less_than_nothing_is_refused(tmp_path: Path) -> None:
    """Where the next one begins is reckoned from it: the reader came back to it for ever."""
    source = tmp_path / "b.tar"
    source.write_bytes(tar_head("b", 0) * 2 + tar_head("a", -1024) + bytes(1024))
    assert "size" in refusal(source, tmp_path / "data")


@pytest.mark.parametrize("kind", [tarfile.XHDTYPE, tarfile.GNUTYPE_LONGNAME])
def test_a_header_that_is_larger_than_the_file_is_refused(kind: bytes, tmp_path: Path) -> None:
    """It would be read whole, into memory that nobody has."""
    source = tmp_path / "b.tar"
    source.write_bytes(tar_head("b", 0) + tar_head("a", 1 << 50, kind) + bytes(1024))
    assert "size" in refusal(source, tmp_path / "data")
