"""`tally token`: tokens are made, listed and revoked; only hashes are kept."""

import json
import re
import stat
from pathlib import Path
from typing import Any

import pytest

from pipeline.access.access import Access
from pipeline.cli import run
from pipeline.clock import SystemClock
from schemas.settings import Settings

TOKEN = re.compile(r"tally_[A-Za-z0-9_-]{43}")


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "tokens.toml"
    monkeypatch.setenv("TALLY_TOKENS", str(path))
    return path


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert run(["token", *arguments]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    return out


def document(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(printed(capsys, *arguments, "--json"))
    return found


def access_to(file: Path) -> Access:
    access = Access.of(Settings(tokens=file), SystemClock())
    assert access is not None
    return access


def test_an_added_token_holds_and_its_file_has_the_hash_only(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rights = ("--read", "likes", "--read", "views", "--write", "*", "--rate", "100")
    out = printed(capsys, "add", "dashboard", *rights, "--expires", "90d")
    token = out.splitlines()[0]
    assert TOKEN.fullmatch(token)
    assert token not in file.read_text()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    grant = access_to(file).grant_of(token)
    assert (grant.name, grant.rate) == ("dashboard", 100)
    assert grant.may("read", "views")
    assert grant.may_all("write")
    assert not grant.may("read", "hashtag")
    assert not grant.may("admin", "likes")


def test_json_has_the_token_once_and_lists_never_have_it(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = document(capsys, "add", "ada", "--admin", "*", "--expires", "1h")
    token = made.pop("token")
    assert TOKEN.fullmatch(token)
    assert made.pop("file") == str(file)
    assert document(capsys, "list") == {"file": str(file), "tokens": [made]}
    shown = printed(capsys, "list")
    assert "ada" in shown
    assert token not in shown
    assert "sha256" not in shown


def test_what_is_in_the_file_stays(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    printed(capsys, "add", "first", "--read", "*")
    file.write_text("# ours, since 2026\n" + file.read_text() + "\n# bob's\n")
    before = file.read_text()
    printed(capsys, "add", "second", "--write", 'odd "family"\\')
    assert file.read_text().startswith(before)
    printed(capsys, "revoke", "second")
    assert file.read_text().rstrip() == before.rstrip()


def test_a_revoked_token_is_gone_and_the_others_hold(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tokens = {name: document(capsys, "add", name, "--read", "*")["token"] for name in "abc"}
    text = file.read_text().replace("[tokens.c]", "# the third\n[tokens.c]  # c")
    file.write_text(text)
    assert document(capsys, "revoke", "b") == {"name": "b", "revoked": True, "file": str(file)}
    access = access_to(file)
    assert [access.grant_of(tokens[name]).name for name in "ac"] == ["a", "c"]
    assert "# the third\n[tokens.c]" in file.read_text()
    assert tokens["b"] not in file.read_text()
    assert [one["name"] for one in document(capsys, "list")["tokens"]] == ["a", "c"]


def test_a_token_in_another_form_is_left_to_a_person(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = f'[tokens]\na = {{hash = "sha256:{"0" * 64}"}}\nb = {{hash = "sha256:{"1" * 64}"}}\n'
    file.write_text(text)
    assert run(["token", "revoke", "a"]) == 1
    assert "remove it by hand" in capsys.readouterr().err
    assert file.read_text() == text


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["add", "ada"], 2, "--read, --write or --admin"),
        (["add", "a b", "--read", "*"], 2, "letters, digits"),
        (["add", "ada", "--read", "a:b"], 2, "--read: expected families"),
        (["add", "ada", "--read", "*", "--rate", "0"], 2, "--rate"),
        (["add", "ada", "--read", "*", "--expires", "soon"], 2, "duration"),
        (["add", "here", "--read", "*"], 1, "there is a token here"),
        (["revoke", "nobody"], 1, "there is no token nobody"),
    ],
)
def test_mistakes_are_told_in_one_line_and_change_nothing(
    arguments: list[str], code: int, said: str, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    printed(capsys, "add", "here", "--read", "*")
    before = file.read_text()
    assert run(["token", *arguments]) == code
    out, err = capsys.readouterr()
    assert said in err
    assert (out, err.count("\n")) == ("", 1)
    assert file.read_text() == before
    assert [one.name for one in file.parent.iterdir()] == [file.name]


def test_without_a_file_it_says_how_to_name_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["token", "list"]) == 1
    assert "set TALLY_TOKENS, or give --file" in capsys.readouterr().err


def test_a_file_that_cannot_be_had_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["token", "list", "--file", str(tmp_path / "none.toml")]) == 1
    assert "tally token add" in capsys.readouterr().err
    nowhere = str(tmp_path / "none" / "tokens.toml")
    assert run(["token", "add", "ada", "--read", "*", "--file", nowhere]) == 1
    assert "cannot be written" in capsys.readouterr().err
