"""What `tally produce` and `tally count --after` refuse before they ask anybody."""

from pathlib import Path

import pytest

from pipeline.cli import run

LINES = '{"counter":"a:b"}\n' * 3


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "events.ndjson"
    path.write_text(LINES)
    return path


def refusal(arguments: list[str], code: int, capsys: pytest.CaptureFixture[str]) -> str:
    assert run(arguments) == code
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.count("\n") == 1
    return printed.err


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (["--resume", "--from-byte", "0"], "--resume or --from-byte, not both"),
        (["--from-byte", "3"], "no line begins at byte 3"),
        (["--from-byte", "99"], "the file ends before byte 99: it has 54 bytes"),
        (["--from-byte", "-1"], "--from-byte"),
    ],
)
def test_a_place_that_makes_no_sense_is_wrong_usage(
    options: list[str], reason: str, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert reason in refusal(["produce", str(file), *options], 2, capsys)


@pytest.mark.parametrize("option", [["--resume"], ["--once"], ["--from-byte", "0"]])
def test_a_stream_has_no_places(option: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert "need a file, not a stream" in refusal(["produce", "-", *option], 2, capsys)


def test_a_file_that_cannot_be_read_is_wrong_usage(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    missing = str(tmp_path / "missing")
    assert f"cannot read {missing}: No such file" in refusal(["produce", missing], 2, capsys)
    assert "Is a directory" in refusal(["produce", str(tmp_path)], 2, capsys)


def test_a_run_that_did_not_end_is_not_begun_anew_unasked(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "nothing to go on with" in refusal(["produce", str(file), "--resume"], 1, capsys)
    left = file.with_name("events.ndjson.tally-progress")
    left.write_text("{}")
    assert "go on with --resume" in refusal(["produce", str(file)], 1, capsys)
    assert "cannot be read" in refusal(["produce", str(file), "--resume"], 1, capsys)


@pytest.mark.parametrize(
    ("options", "reason"),
    [(["--after", "soon"], "not a receipt"), (["--wait", "3"], "--wait is for --after")],
)
def test_a_receipt_that_is_none_is_wrong_usage(
    options: list[str], reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert reason in refusal(["count", "a:b", *options], 2, capsys)
