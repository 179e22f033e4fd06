"""What somebody put into a data folder is taken along, while servers go on beside it."""

import io
import os
import shutil
import tarfile
from pathlib import Path

import pytest

from pipeline.backup.archive import ArchiveWriter
from pipeline.backup.other_files import add
from pipeline.local.data_folder import MARKER


def a_data_folder(folder: Path) -> Path:
    merge = folder / "clickhouse" / "engine" / "store" / "abc" / "tmp_merge_1_1_11_2"
    merge.mkdir(parents=True)
    (merge / "data.bin").write_text("half")
    for name in ("tokens.json", "addresses.json", "lock", MARKER, "families.toml.new", "b.part"):
        (folder / name).write_text(name)
    for name in ("log", "logs", "notes"):
        (folder / name).mkdir()
        (folder / name / "lock").write_text(name)
    (folder / "link").symlink_to("tokens.json")
    return folder


def added(data: Path) -> list[str]:
    with tarfile.TarFile(fileobj=io.BytesIO(), mode="w") as tar:
        archive = ArchiveWriter(tar, lambda _: None)
        add(data, archive)
    return [item.path for item in archive.items]


def test_servers_own_folders_and_files_of_the_moment_are_left_out(tmp_path: Path) -> None:
    assert added(a_data_folder(tmp_path)) == ["tokens.json", "notes/lock"]


def test_folders_that_servers_remove_meanwhile_do_no_harm(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = a_data_folder(tmp_path)
    scan = os.scandir

    def scan_late(path: str) -> object:
        """The engine has merged its parts between being listed and being looked into."""
        if Path(path).name.startswith("tmp_merge"):
            shutil.rmtree(path)
        return scan(path)

    monkeypatch.setattr(os, "scandir", scan_late)
    assert added(data) == ["tokens.json", "notes/lock"]


def test_a_file_that_is_removed_before_it_is_read_is_not_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = a_data_folder(tmp_path)
    open_file = Path.open

    def open_late(path: Path, mode: str) -> object:
        path.unlink()
        return open_file(path, mode)

    monkeypatch.setattr(Path, "open", open_late)
    assert added(data) == []
