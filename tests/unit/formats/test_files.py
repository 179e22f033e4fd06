"""What this version stored in files is read by every later one, and newer forms are refused."""

import io
from pathlib import Path

import msgspec
import pytest

from pipeline.embedded.log import sidecar
from pipeline.embedded.log.meta import Meta
from pipeline.embedded.log.partition import Partition
from pipeline.embedded.log.topic_config import TopicConfig
from pipeline.errors import OperatorError
from pipeline.local import data_folder
from pipeline.local.data_folder import Marker
from pipeline.produce.progress import SUFFIX, ProgressFile
from tests.kit.clocks import ManualClock
from tests.unit.formats.stored import document, stored

T0_MS = 1_760_000_400_000


def a_partition(folder: Path) -> Partition:
    (folder / f"{0:020d}.log").write_bytes(stored("segment-2.log"))
    return Partition(folder, TopicConfig({}), 0, T0_MS, lambda *_: None)


def test_a_segment_of_this_version_is_read(tmp_path: Path) -> None:
    partition = a_partition(tmp_path)
    assert partition.end_offset == 2
    assert partition.read(0, 1000)[0] == stored("segment-2.log")
    assert [one[0] for one in partition.producers.snapshot()] == [1000]
    partition.close()


def test_a_sidecar_of_this_version_vouches_and_a_newer_one_is_passed_over(tmp_path: Path) -> None:
    path = tmp_path / f"{0:020d}.meta"
    path.write_bytes(stored("sidecar-2.meta"))
    size = len(stored("segment-2.log"))
    known = sidecar.load(path, size)
    assert known is not None
    assert (known.next_offset, known.cleaned) == (2, False)
    sidecar.save(path, msgspec.structs.replace(known, version=3, next_offset=77))
    assert sidecar.load(path, size) is None
    partition = a_partition(tmp_path)
    assert partition.end_offset == 2, "the segment itself was read"
    partition.close()


def test_a_sidecar_without_a_checksum_is_passed_over_and_written_anew(tmp_path: Path) -> None:
    path = tmp_path / f"{0:020d}.meta"
    path.write_bytes(stored("sidecar-1.meta"))
    (tmp_path / f"{2:020d}.log").touch()
    assert sidecar.load(path, len(stored("segment-2.log"))) is None
    a_partition(tmp_path).close()
    assert path.read_bytes() == stored("sidecar-2.meta")


def test_a_logs_database_of_this_version_is_read(tmp_path: Path) -> None:
    (tmp_path / "meta.sqlite").write_bytes(stored("log-meta-1.sqlite"))
    meta = Meta(tmp_path / "meta.sqlite", sync_each_commit=False)
    assert [(one.name, one.partitions, one.settings) for one in meta.topics()] == [
        ("tally.increments", 8, {"retention.ms": "77"})
    ]
    assert meta.offsets("tally-build-1")["tally.increments", 3].offset == 9
    assert meta.next_producer_id() == 2000
    meta.close()


def test_a_logs_database_from_before_it_had_a_version_is_taken_as_it_is(tmp_path: Path) -> None:
    old = bytearray(stored("log-meta-1.sqlite"))
    old[60:64] = bytes(4)  # SQLite keeps user_version there.
    (tmp_path / "meta.sqlite").write_bytes(old)
    Meta(tmp_path / "meta.sqlite", sync_each_commit=False).close()
    assert (tmp_path / "meta.sqlite").read_bytes()[60:64] == b"\0\0\0\1"


def test_progress_of_this_version_is_gone_on_with_and_a_newer_one_refused(tmp_path: Path) -> None:
    content = b"{}\n{}\n"
    saved = document("produce-progress-1.json")
    path = tmp_path / f"events.ndjson{SUFFIX}"
    progress = ProgressFile(tmp_path / "events.ndjson", ManualClock())
    path.write_bytes(stored("produce-progress-1.json"))
    found = progress.load(io.BytesIO(content))
    assert (found.offset, found.lines, found.sent, found.refused, found.once) == (6, 2, 1, 1, True)
    path.write_bytes(msgspec.json.encode({**saved, "version": 2}))
    with pytest.raises(OperatorError, match="is of another version of Tally: 2"):
        progress.load(io.BytesIO(content))


def test_a_folder_without_a_marker_gets_one(tmp_path: Path) -> None:
    data_folder.mark(tmp_path)
    assert data_folder.read_marker(tmp_path) == data_folder.present()
    data_folder.mark(tmp_path)


@pytest.mark.parametrize(
    ("marker", "expected"),
    [
        (
            Marker(2, "9.9", "1.1"),
            r"is of data format 2, written by the newer Tally 9\.9; .* use v",
        ),
        (
            Marker(0, "0.0", "1.1"),
            r"is of data format 0, written by the older Tally 0\.0; .* use v",
        ),
        (Marker(1, "9.9", "99.1"), r"engine 99\.1, and .* is installed.* install chdb-core 99\.1"),
    ],
)
def test_another_tallys_folder_is_refused_and_left_alone(
    marker: Marker, expected: str, tmp_path: Path
) -> None:
    file = tmp_path / data_folder.MARKER
    file.write_bytes(data_folder.encode(marker))
    with pytest.raises(OperatorError, match=expected):
        data_folder.mark(tmp_path)
    assert file.read_bytes() == data_folder.encode(marker)


def test_a_marker_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    (tmp_path / data_folder.MARKER).write_text("[]")
    with pytest.raises(OperatorError, match="cannot be read"):
        data_folder.mark(tmp_path)


def test_an_older_engines_folder_is_taken_over(tmp_path: Path) -> None:
    (tmp_path / data_folder.MARKER).write_bytes(data_folder.encode(Marker(1, "0.0.1", "25.1.0")))
    data_folder.mark(tmp_path)
    assert data_folder.read_marker(tmp_path) == data_folder.present()
