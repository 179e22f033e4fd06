"""How far a file was sent: kept whole or not at all, and never taken for another file's."""

from pathlib import Path

import pytest

from pipeline.errors import BadInputError, OperatorError
from pipeline.produce.beginning import begin_anew, begin_at, resume
from pipeline.produce.progress import SAMPLE_BYTES, Progress, ProgressFile, mark
from tests.kit.clocks import ManualClock

LINES = b'{"counter":"a:b"}\n' * 10_000


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "events.ndjson"
    path.write_bytes(LINES)
    return path


@pytest.fixture
def kept(file: Path) -> ProgressFile:
    return ProgressFile(file, ManualClock())


def save_half(file: Path, kept: ProgressFile, *, once: bool = False) -> Progress:
    with file.open("rb") as source:
        progress = begin_anew(source, kept, once=once)
    progress.offset, progress.lines, progress.sent, progress.receipt = 90_000, 5_000, 5_000, "3:7"
    kept.save(progress)
    return progress


def test_a_run_goes_on_where_it_was_saved(file: Path, kept: ProgressFile) -> None:
    saved = save_half(file, kept)
    assert sorted(path.name for path in file.parent.iterdir()) == [
        "events.ndjson",
        "events.ndjson.tally-progress",
    ]
    with file.open("rb") as source:
        assert resume(source, kept, once=False) == saved
        assert source.tell() == 90_000
    kept.remove()
    assert not kept.exists


def test_a_file_that_only_grew_is_the_same(file: Path, kept: ProgressFile) -> None:
    saved = save_half(file, kept)
    file.write_bytes(LINES + b'{"counter":"c:d"}\n')
    with file.open("rb") as source:
        assert resume(source, kept, once=False) == saved


@pytest.mark.parametrize(
    ("other", "reason"),
    [
        (LINES[:-18], "it has 179982 bytes and had 180000"),
        (b"#" + LINES[1:], "its bytes differ"),
        (LINES[:-2] + b"#\n", "its bytes differ"),
    ],
    ids=["shorter", "other first bytes", "other last bytes"],
)
def test_another_file_is_refused(file: Path, kept: ProgressFile, other: bytes, reason: str) -> None:
    save_half(file, kept)
    file.write_bytes(other)
    with file.open("rb") as source, pytest.raises(BadInputError, match=f"another file: {reason}"):
        resume(source, kept, once=False)


def test_files_that_begin_alike_have_other_fingerprints(tmp_path: Path) -> None:
    def fingerprint(data: bytes) -> str:
        path = tmp_path / "one"
        path.write_bytes(data)
        with path.open("rb") as source:
            return mark(source).fingerprint

    same = b"x" * SAMPLE_BYTES
    contents = [b"", b"x", same, same + b"x", same + b"y", same * 3]
    assert len({fingerprint(data) for data in contents}) == len(contents)
    assert fingerprint(same) == fingerprint(same)


def test_nothing_to_go_on_with_and_something_left_are_told(file: Path, kept: ProgressFile) -> None:
    with file.open("rb") as source:
        with pytest.raises(OperatorError, match="nothing to go on with"):
            resume(source, kept, once=False)
        save_half(file, kept)
        with pytest.raises(OperatorError, match="go on with --resume, or begin anew"):
            begin_anew(source, kept, once=False)
        assert begin_at(source, 18, once=False).lines == 1


@pytest.mark.parametrize("damage", [b"", b"{", b'{"size":-1,"fingerprint":""}', b"[]"])
def test_a_damaged_progress_is_told(file: Path, kept: ProgressFile, damage: bytes) -> None:
    kept.path.write_bytes(damage)
    with file.open("rb") as source, pytest.raises(OperatorError, match="cannot be read"):
        resume(source, kept, once=False)


def test_ids_hold_from_the_beginning_of_a_run_or_not_at_all(file: Path, kept: ProgressFile) -> None:
    save_half(file, kept)
    with file.open("rb") as source, pytest.raises(BadInputError, match="began without --once"):
        resume(source, kept, once=True)
    kept.remove()
    save_half(file, kept, once=True)
    with file.open("rb") as source:
        assert resume(source, kept, once=False).once


def test_it_is_saved_about_once_a_second(file: Path) -> None:
    clock = ManualClock()
    kept = ProgressFile(file, clock)
    progress = Progress(1, "0" * 16)
    kept.save(progress)
    for second, sent in ((0.9, 0), (0.2, 2), (0.5, 2), (0.6, 4)):
        progress.sent += 1
        clock.advance(second)
        kept.save_now_and_then(progress)
        with file.open("rb"):
            assert f'"sent":{sent},' in kept.path.read_text()


def test_a_folder_that_takes_no_file_is_told(tmp_path: Path) -> None:
    kept = ProgressFile(tmp_path / "gone" / "events.ndjson", ManualClock())
    with pytest.raises(OperatorError, match=r"cannot write .*: No such file"):
        kept.save(Progress(1, "0" * 16))
