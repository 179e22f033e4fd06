"""ClickHouse's part of a backup: whole, or told that it is not."""

import io
import tarfile
from pathlib import Path

import pytest

from pipeline.backup.archive import ArchiveWriter
from pipeline.backup.clickhouse_copy import Tables, add
from pipeline.errors import TryAgainError


def an_engine(folder: Path) -> Path:
    part = folder / "store" / "abc" / "abc-1" / "all_1_1_0"
    part.mkdir(parents=True)
    (part / "data.bin").write_bytes(b"data")
    (part.parent / "tmp_merge_all_1_2_1").mkdir()
    (part.parent / "tmp_merge_all_1_2_1" / "data.bin").write_bytes(b"half")
    (folder / "metadata").mkdir()
    (folder / "metadata" / "tally").symlink_to("../store/abc/abc-1")
    (folder / "metadata" / "tally.sql").write_bytes(b"ATTACH")
    (folder / "shadow").mkdir()
    (folder / "shadow" / "increment.txt").write_text("1")
    return folder


def added(tables: Tables) -> list[str]:
    with tarfile.TarFile(fileobj=io.BytesIO(), mode="w") as tar:
        archive = ArchiveWriter(tar, lambda _: None)
        add(tables, archive)
    return [item.path.removeprefix("clickhouse/engine/") for item in archive.items]


def test_what_an_engine_needs_is_taken_and_what_it_would_remove_is_not(tmp_path: Path) -> None:
    assert added(Tables(an_engine(tmp_path), None)) == [
        "metadata/tally",
        "metadata/tally.sql",
        "store/abc/abc-1/all_1_1_0/data.bin",
    ]


def test_a_copy_that_lost_files_is_no_copy(tmp_path: Path) -> None:
    engine = an_engine(tmp_path)
    assert len(added(Tables(engine, 3))) == 3
    (engine / "metadata" / "tally.sql").unlink()
    with pytest.raises(TryAgainError, match="was started anew while it was copied"):
        added(Tables(engine, 3))


def test_a_copy_that_is_gone_is_no_empty_copy(tmp_path: Path) -> None:
    with pytest.raises(TryAgainError, match="was started anew"):
        added(Tables(tmp_path / "gone", 3))
