"""A backup as a file: whole or refused, whatever happened to it."""

import errno
import fcntl
import hashlib
import io
import os
import re
import tarfile
import tempfile
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import IO, Any

import msgspec
import pytest

from pipeline.backup import archive as archive_module
from pipeline.backup import manifest, restoring
from pipeline.backup.archive import writing
from pipeline.backup.manifest import Item, Manifest
from pipeline.backup.other_files import LOCK
from pipeline.backup.restoring import restore
from pipeline.backup.taking import Tell, take_backup
from pipeline.clock import SystemClock
from pipeline.errors import BadInputError, OperatorError, TryAgainError
from pipeline.local import data_folder
from pipeline.local.claim import claimed
from pipeline.local.data_folder import Marker

CONTENT = bytes(range(256)) * 40


def a_manifest(items: list[Item], **changes: object) -> Manifest:
    made = Manifest(manifest.FORMAT, "9.9", data_folder.present(), 1, 2, True, items)
    return msgspec.structs.replace(made, **changes)


def a_backup(target: Path, **changes: object) -> Path:
    with writing(target, lambda _: None) as archive:
        archive.add_bytes("log/a", CONTENT, 0o600)
        archive.add_link("log/b", "a")
        archive.end(a_manifest(archive.items, **changes))
    return target


def refusal(source: Path, folder: Path) -> str:
    """Why it is refused; nothing is left of the attempt."""
    before = sorted(folder.parent.iterdir())
    with pytest.raises((BadInputError, OperatorError)) as told:
        restore(source, folder, Tell())
    assert sorted(folder.parent.iterdir()) == before
    text = str(told.value)
    assert "\n" not in text
    return text


def test_what_was_added_comes_back_with_its_rights_and_links(tmp_path: Path) -> None:
    source = a_backup(tmp_path / "b.tar")
    assert source.stat().st_mode & 0o777 == 0o600
    restore(source, tmp_path / "data", Tell())
    assert (tmp_path / "data/log/a").read_bytes() == CONTENT
    assert (tmp_path / "data/log/a").stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "data/log/b").readlink() == Path("a")


def test_every_cut_and_every_flipped_byte_that_matters_is_refused(tmp_path: Path) -> None:
    whole = a_backup(tmp_path / "b.tar").read_bytes()
    damaged = tmp_path / "damaged.tar"
    with tarfile.open(tmp_path / "b.tar") as tar:
        places = {member.name: member.offset_data for member in tar}
        end = places[manifest.SEAL] + 64
    for size in range(0, end, 509):
        damaged.write_bytes(whole[:size])
        refusal(damaged, tmp_path / "data")
    for name, start in places.items():
        spoilt = bytearray(whole)
        spoilt[start + 20] ^= 1
        damaged.write_bytes(spoilt)
        assert "damaged" in refusal(damaged, tmp_path / "data"), name


def test_an_unfinished_backup_has_another_name_and_is_refused(tmp_path: Path) -> None:
    with writing(tmp_path / "b.tar", lambda _: None) as archive:
        archive.add_bytes("log/a", CONTENT)
        unfinished = tmp_path / "copy.tar"
        unfinished.write_bytes((tmp_path / "b.tar.part").read_bytes())
        assert not (tmp_path / "b.tar").exists()
        assert "backup" in refusal(unfinished, tmp_path / "data")
        archive.end(a_manifest(archive.items))


def test_a_backup_that_fails_leaves_nothing(tmp_path: Path) -> None:
    def failing() -> None:
        with writing(tmp_path / "b.tar", lambda _: None) as archive:
            archive.add_bytes("log/a", CONTENT)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        failing()
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_became_shorter_means_try_again(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"short")
    with (
        (tmp_path / "file").open("rb") as file,
        pytest.raises(TryAgainError, match="became shorter"),
        writing(tmp_path / "b.tar", lambda _: None) as archive,
    ):
        archive.add_open("log/a", file.fileno(), 100)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"format": 2}, r"backup of format 2, made by Tally 9\.9; .* restore it with version 9\.9"),
        ({"data": Marker(2, "9.9", "26.9.0")}, r"of data format 2, written by the newer Tally 9\."),
        ({"data": Marker(1, "9.9", "99.1.0")}, r"engine 99\.1\.0, and .* install chdb-core 99"),
    ],
)
def test_what_a_newer_tally_made_is_refused_with_what_to_do(
    changes: dict[str, object], message: str, tmp_path: Path
) -> None:
    source = a_backup(tmp_path / "b.tar", **changes)
    assert re.search(message, refusal(source, tmp_path / "data"))


@pytest.mark.parametrize(
    "item",
    [
        Item("/etc/passwd"),
        Item("log/../../x"),
        Item("log/b", link="../../x"),
        Item("log/b", link="/etc"),
        Item(""),
    ],
)
def test_nothing_is_written_outside_of_the_folder(item: Item, tmp_path: Path) -> None:
    encoded = manifest.encode(a_manifest([item]))
    with pytest.raises(BadInputError, match="no backup of Tally"):
        manifest.decode(encoded, hashlib.sha256(encoded).hexdigest().encode(), "it")


def test_a_folder_that_holds_something_is_refused(tmp_path: Path) -> None:
    source = a_backup(tmp_path / "b.tar")
    data = tmp_path / "data"
    data.mkdir()
    (data / "mine").write_text("")
    assert "not empty" in refusal(source, data)
    (data / "mine").rename(data / data_folder.MARKER)
    assert "is a data folder of Tally" in refusal(source, data)
    assert "no folder" in refusal(source, source)


def test_an_empty_folder_is_taken(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    restore(a_backup(tmp_path / "b.tar"), tmp_path / "data", Tell())
    assert (tmp_path / "data/log/a").exists()


def test_another_tar_and_a_file_that_is_none_are_refused(tmp_path: Path) -> None:
    other = tmp_path / "other.tar"
    with tarfile.open(other, "w") as tar:
        tar.addfile(tarfile.TarInfo("a"), io.BytesIO())
    assert "lacks its list of files" in refusal(other, tmp_path / "data")
    other.write_text("no tar")
    assert "is no backup of Tally" in refusal(other, tmp_path / "data")
    assert "cannot read" in refusal(tmp_path / "missing.tar", tmp_path / "data")


def test_a_restore_that_was_killed_is_no_obstacle(tmp_path: Path) -> None:
    left = tmp_path / "data.restoring" / "log"
    left.mkdir(parents=True)
    (left / "a").write_text("half")
    restore(a_backup(tmp_path / "b.tar"), tmp_path / "data", Tell())
    assert (tmp_path / "data/log/a").read_bytes() == CONTENT


def test_two_archives_of_one_name_are_not_written_at_once(tmp_path: Path) -> None:
    """They were written into one file, and the first to end called it whole."""
    target = tmp_path / "b.tar"
    with writing(target, lambda _: None) as archive:
        archive.add_bytes("log/a", CONTENT)
        with (
            pytest.raises(OperatorError, match=r"somebody writes .*b\.tar\.part already"),
            writing(target, lambda _: None) as other,
        ):
            other.add_bytes("log/a", b"other")
        archive.end(a_manifest(archive.items))
    restore(target, tmp_path / "data", Tell())
    assert (tmp_path / "data/log/a").read_bytes() == CONTENT
    with (
        pytest.raises(OperatorError, match="File exists"),
        writing(target, lambda _: None) as late,
    ):
        late.end(a_manifest(late.items))
    assert sorted(one.name for one in tmp_path.iterdir()) == ["b.tar", "data"]


def test_a_finished_backup_outlives_what_was_left_of_its_draft(tmp_path: Path) -> None:
    """Killed before the draft was removed, which is the same file: the next one emptied both."""
    target, monday = tmp_path / "b.tar", tmp_path / "monday.tar"
    child = os.fork()
    if child == 0:
        link = os.link

        def link_and_die(draft: Path, name: Path) -> None:
            link(draft, name)
            os._exit(9)

        os.link = link_and_die  # type: ignore[assignment]  # only what is asked for here
        try:
            a_backup(target)
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9
    assert (tmp_path / "b.tar.part").samefile(target)
    whole = target.read_bytes()
    target.rename(monday)
    a_backup(target)
    assert monday.read_bytes() == whole
    assert not target.samefile(monday)
    restore(monday, tmp_path / "data", Tell())
    assert sorted(one.name for one in tmp_path.iterdir()) == ["b.tar", "data", "monday.tar"]


def test_a_draft_that_is_a_link_to_elsewhere_is_refused_and_leaves_that_as_it_was(
    tmp_path: Path,
) -> None:
    (tmp_path / "mine").write_text("mine")
    (tmp_path / "b.tar.part").symlink_to("mine")
    with pytest.raises(OperatorError, match="cannot write"):
        a_backup(tmp_path / "b.tar")
    assert (tmp_path / "mine").read_text() == "mine"


@pytest.mark.parametrize("moment", ["made", "held"])
def test_a_draft_that_another_took_for_one_that_was_left_is_made_anew(
    moment: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is there for a moment before it is held."""
    draft, real = tmp_path / "b.tar.part", archive_module._hold
    calls = count()

    def hold(file: IO[bytes]) -> bool:
        if next(calls):
            return real(file)
        if moment == "made":
            archive_module._remove_left(draft)
            return real(file)
        with draft.open("rb") as other:
            assert real(other)
            assert not real(file)
            draft.unlink()
        return False

    monkeypatch.setattr(archive_module, "_hold", hold)
    restore(a_backup(tmp_path / "b.tar"), tmp_path / "data", Tell())
    assert sorted(one.name for one in tmp_path.iterdir()) == ["b.tar", "data"]


class Meanwhile(Tell):
    """Something happens while files are extracted."""

    def __init__(self, happens: Callable[[], object]) -> None:
        self._happens: Callable[[], object] | None = happens

    def copied(self, count: int) -> None:  # noqa: ARG002 - whatever was copied
        happens, self._happens = self._happens, None
        if happens is not None:
            happens()


def test_two_restores_into_one_folder_leave_one_of_them_whole(tmp_path: Path) -> None:
    """They went into one draft: files of both were there, and one of them said it was whole."""
    backup, data = a_backup(tmp_path / "b.tar"), tmp_path / "data"
    left = tmp_path / "data.restoring-killed"
    left.mkdir()

    def other() -> None:
        assert restore(backup, data, Tell())

    with pytest.raises(OperatorError, match="not empty"):
        restore(backup, data, Meanwhile(other))
    assert (data / "log/a").read_bytes() == CONTENT
    assert sorted(one.name for one in tmp_path.iterdir()) == ["b.tar", "data"]


@pytest.fixture
def mask(request: pytest.FixtureRequest) -> Iterator[None]:
    """The umask while the test runs."""
    before = os.umask(request.param)
    yield
    os.umask(before)


@pytest.mark.usefixtures("mask")
@pytest.mark.parametrize(
    ("mask", "mode"), [(0o077, 0o700), (0o027, 0o750), (0o002, 0o775)], indirect=["mask"]
)
def test_a_restored_folder_may_be_read_by_whom_any_new_one_may(mode: int, tmp_path: Path) -> None:
    """While it is a draft, by its owner alone."""
    backup, seen = a_backup(tmp_path / "b.tar"), list[int]()

    def look() -> None:
        [draft] = tmp_path.glob("data.restoring-*")
        seen.append(draft.stat().st_mode & 0o7777)

    restore(backup, tmp_path / "data", Meanwhile(look))
    assert ((tmp_path / "data").stat().st_mode & 0o7777, seen) == (mode, [0o700])
    assert [one.name for one in (tmp_path / "data").iterdir()] == ["log"]


def test_a_restore_ends_when_its_name_is_on_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[tuple[int, bool]] = []
    data = tmp_path / "data"
    monkeypatch.setattr(os, "fsync", lambda fd: synced.append((os.fstat(fd).st_ino, data.exists())))
    restore(a_backup(tmp_path / "b.tar"), data, Tell())
    assert synced[-1] == (tmp_path.stat().st_ino, True)


def test_a_restore_into_a_folder_that_cannot_be_synced_begins_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    backup, real = a_backup(tmp_path / "b.tar"), os.open

    def no_folder(path: str | Path, flags: int, *more: Any, **given: Any) -> int:
        if path == tmp_path:
            raise OSError(errno.EACCES, "Permission denied")
        return real(path, flags, *more, **given)

    monkeypatch.setattr(os, "open", no_folder)
    assert "cannot restore to" in refusal(backup, tmp_path / "data")


def refuse_folder(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """Have the disk refuse to sync this one."""
    real, inode = os.fsync, folder.stat().st_ino

    def fsync(fd: int) -> None:
        if os.fstat(fd).st_ino == inode:
            raise OSError(errno.EIO, "Input/output error")
        real(fd)

    monkeypatch.setattr(os, "fsync", fsync)


def test_a_restore_whose_name_the_disk_refuses_says_that_it_is_in_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    backup, data = a_backup(tmp_path / "b.tar"), tmp_path / "data"
    refuse_folder(monkeypatch, tmp_path)
    with pytest.raises(OperatorError, match=r"data is whole and in its place, but .* name"):
        restore(backup, data, Tell())
    assert (data / "log/a").read_bytes() == CONTENT
    assert sorted(one.name for one in tmp_path.iterdir()) == ["b.tar", "data"]


def test_a_backup_whose_name_the_disk_refuses_says_that_it_is_in_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refuse_folder(monkeypatch, tmp_path)
    with pytest.raises(OperatorError, match=r"b\.tar is whole and in its place, but .* name"):
        a_backup(tmp_path / "b.tar")
    assert [one.name for one in tmp_path.iterdir()] == ["b.tar"]
    restore(tmp_path / "b.tar", tmp_path / "elsewhere" / "data", Tell())


def test_a_restored_folder_has_the_mode_of_the_empty_one_it_replaces(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data").chmod(0o2710)
    restore(a_backup(tmp_path / "b.tar"), tmp_path / "data", Tell())
    assert (tmp_path / "data").stat().st_mode & 0o7777 == 0o2710


@pytest.mark.parametrize("moment", ["made", "opened", "busy"])
def test_a_restore_makes_another_draft_when_a_second_one_removed_its_first(
    moment: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before it is held, it looks like one whose restore died."""
    backup, data = a_backup(tmp_path / "b.tar"), tmp_path / "data"
    made, lock, drafts = tempfile.mkdtemp, fcntl.flock, list[Path]()
    happened: set[str] = set()

    def once(what: str) -> bool:
        is_first = what == moment and what not in happened
        happened.add(what)
        return is_first

    def second() -> None:
        with restoring._draft_of(data):
            pass

    def mkdtemp(**places: Any) -> str:
        drafts.append(Path(made(**places)))
        draft = drafts[-1]
        if once("made"):
            second()
        return str(draft)

    def flock(descriptor: int, how: int) -> None:
        if once("opened"):
            second()
        if once("busy"):
            with restoring._held(drafts[0]):
                try:
                    lock(descriptor, how)
                finally:
                    drafts[0].rmdir()
        lock(descriptor, how)

    monkeypatch.setattr(tempfile, "mkdtemp", mkdtemp)
    monkeypatch.setattr(fcntl, "flock", flock)
    restore(backup, data, Tell())
    assert len(drafts) > 1
    assert (data / "log/a").read_bytes() == CONTENT
    assert sorted(one.name for one in tmp_path.iterdir()) == ["b.tar", "data"]


def test_a_restore_whose_drafts_are_always_removed_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = tempfile.mkdtemp

    def mkdtemp(**places: Any) -> str:
        draft = Path(made(**places))
        draft.rmdir()
        return str(draft)

    monkeypatch.setattr(tempfile, "mkdtemp", mkdtemp)
    source = a_backup(tmp_path / "b.tar")
    assert "others restore there" in refusal(source, tmp_path / "data")


def test_two_backups_are_not_taken_at_once(tmp_path: Path) -> None:
    data = tmp_path / "data"
    for name in ("log", "clickhouse"):
        (data / name).mkdir(parents=True)
    with (
        claimed(data, LOCK, unusable="", in_use=""),
        pytest.raises(OperatorError, match=r"takes a backup of .* already: wait until"),
    ):
        take_backup(data, tmp_path / "b.tar", SystemClock(), Tell())
    assert not (tmp_path / "b.tar.part").exists()
