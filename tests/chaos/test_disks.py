"""A small disk is full when it is filled; where there must be disks, a missing one is a failure."""

import errno
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kit.disks import Disk, NoDiskError, small_disk

NO_SIZE_MB = -1
"""Nobody can mount that."""


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    with small_disk(tmp_path / "small", megabytes=4) as made:
        yield made


def test_a_full_disk_takes_no_byte_until_it_is_freed(disk: Disk) -> None:
    assert disk.fill()
    with pytest.raises(OSError, match="No space left") as refused:
        (disk.folder / "one").write_bytes(b"1")
    assert refused.value.errno == errno.ENOSPC
    assert os.statvfs(disk.folder).f_bavail == 0
    disk.free()
    (disk.folder / "one").write_bytes(b"1")


def test_a_disk_that_is_full_already_counts_as_filled(disk: Disk) -> None:
    assert disk.fill()
    (disk.folder / "ballast").rename(disk.folder / "other")
    assert disk.fill()


def test_what_others_free_meanwhile_is_filled_by_the_next_call(disk: Disk) -> None:
    other = disk.folder / "other"
    other.write_bytes(bytes(1 << 20))
    assert disk.fill()
    with (disk.folder / "ballast").open("r+b") as ballast:
        ballast.write(b"stays")
    other.unlink()
    assert disk.fill()
    assert os.statvfs(disk.folder).f_bavail == 0
    with (disk.folder / "ballast").open("rb") as ballast:
        assert ballast.read(5) == b"stays"


def test_what_is_not_mounted_is_not_filled_in_silence(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="no small disk is mounted"):
        Disk(tmp_path / "small", megabytes=4).fill()
    assert not (tmp_path / "small").exists()


def test_a_disk_that_cannot_be_mounted_is_told_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TALLY_REQUIRE_DISKS", raising=False)
    why = Disk(tmp_path / "small", NO_SIZE_MB).mount()
    assert why is not None
    assert why.startswith("no disk is filled: ")


def test_a_disk_that_cannot_be_mounted_fails_where_disks_are_required(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TALLY_REQUIRE_DISKS", "1")
    with pytest.raises(NoDiskError, match=r"no disk is filled: .* \(TALLY_REQUIRE_DISKS=1\)"):
        Disk(tmp_path / "small", NO_SIZE_MB).mount()
