"""`tally top` and `tally rank` as processes on a real ClickHouse: answers, exits, a live table."""

import json
import os
import pty
import signal
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import clickhouse_connect
import pytest

from pipeline.cli import run
from schemas.migrate import migrate
from tests.integration.rollup.site import MINUTE_S, Cell, Site
from tests.kit.door import Door
from tests.kit.processes import Process, wait_until
from tests.kit.tally import TALLY, RunningTally
from tests.kit.tied import start_tied

SHOW_CURSOR, HIDE_CURSOR = b"\x1b[?25h", b"\x1b[?25l"


@pytest.fixture(scope="module")
def tally(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningTally]:
    """A ClickHouse in which three counters of one family were just counted."""
    door = Door(tmp_path_factory.mktemp("clickhouse"))
    door.start()
    try:
        with closing(clickhouse_connect.get_client(dsn=door.url)) as client:
            migrate(client)
            site = Site(client)
            now_s = int(site.rows("SELECT toUnixTimestamp(now())")[0][0])
            at_s = now_s - now_s % MINUTE_S
            names = {"tag:a": 5, "tag:b\x1b[2J": 7, "tag:c": 1}
            site.flush(
                [(Cell(name, "eu", at_s, at_s, 0), count, 0) for name, count in names.items()]
            )
            site.flush_position(0, now_s)
        yield RunningTally("127.0.0.1:1", door.url, door=door)
    finally:
        door.kill()


class Commands:
    """Commands run in this process, which is quicker; what they print is taken."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys

    def run(self, *arguments: str, code: int = 0) -> tuple[str, str]:
        self._capsys.readouterr()
        assert run(arguments) == code
        printed = self._capsys.readouterr()
        return printed.out, printed.err

    def json(self, *arguments: str) -> Any:
        out, err = self.run(*arguments, "--json")
        assert (err, out.count("\n")) == ("", 1)
        return json.loads(out)


@pytest.fixture
def commands(
    tally: RunningTally, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Commands:
    monkeypatch.setenv("TALLY_CLICKHOUSE", tally.clickhouse)
    return Commands(capsys)


def test_the_answers_are_one_document_or_a_table(commands: Commands) -> None:
    found = commands.json("top", "tag", "-k", "2")
    assert [(row["rank"], row["counter"], row["count"], row["error"]) for row in found["top"]] == [
        (1, "tag:b\x1b[2J", 7, 0),
        (2, "tag:a", 5, 0),
    ]
    assert (found["family"], found["region"], found["window"]) == ("tag", "*", "last 1h")
    assert {"as_of", "staleness_ms", "complete"} <= set(found)
    lines = commands.run("top", "tag", "--window", "1d")[0].splitlines()
    assert lines[1:4] == ["1    tag:b\\x1b[2J  7", "2    tag:a         5", "3    tag:c         1"]
    assert commands.json("top", "tag", "--region", "us")["top"] == []
    assert "in region 'us'" in commands.run("top", "tag", "--region", "us")[0]

    place = commands.json("rank", "tag:a", "--window", "1h")
    assert (place["rank"], place["of"], place["count"], place["error"]) == (2, 3, 5, 0)
    assert (place["above"]["count"], place["below"]["counter"]) == (7, "tag:c")
    text, _ = commands.run("rank", "tag:a")
    assert text.startswith("tag:a  rank 2 of 3, count 5  (tag, all regions, last 1h)\n  above  1  ")
    assert commands.json("rank", "tag:nobody")["rank"] is None


def test_a_family_nobody_counted_is_one_line_that_names_those_there_are(
    commands: Commands,
) -> None:
    for arguments in (["top", "tga"], ["top", "tga", "--json"], ["top", "tga", "--watch"]):
        out, err = commands.run(*arguments, code=1)
        assert out == ""
        assert err == "tally: nothing of a family 'tga' was ever counted; there are tag\n"
    assert "write family:key" in commands.run("rank", "tag", code=2)[1]


def test_watching_survives_an_outage_and_ends_with_ctrl_c(
    tally: RunningTally, tmp_path: Path
) -> None:
    door = tally.door
    assert door is not None
    door.kill()  # It runs again when the test is over.
    command = [*TALLY, "top", "tag", "--watch", "0.1"]
    with Process(command, output_path=tmp_path / "watch.txt", env=tally.env) as watching:
        watching.wait_for_line(r"^tally: ClickHouse at .* does not answer")
        door.start()
        watching.wait_for_line(r"^2 +tag:a +5$", timeout_s=60)
        door.kill()
        watching.wait_for_line(
            r"(?s)tag:a.*^tally: ClickHouse did not answer a query", timeout_s=60
        )
        tables = watching.output().count("tag:a")
        door.start()
        wait_until(lambda: watching.output().count("tag:a") > tables, "a new table", timeout_s=60)
        watching.send(signal.SIGINT)
        assert watching.wait() == 0
    assert "\n\ntag, all regions, last 1h" in watching.output()
    assert "Traceback" not in watching.output()


def test_on_a_terminal_ctrl_c_leaves_it_as_it_was(tally: RunningTally) -> None:
    ours, theirs = pty.openpty()
    child = start_tied(
        [*TALLY, "top", "tag", "--watch", "0.1"],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env={**os.environ, **tally.env, "TERM": "xterm", "COLUMNS": "70"},
    )
    os.close(theirs)
    seen = b""
    try:
        while seen.count(b"tag:a") < 2:
            seen += os.read(ours, 65536)
        child.send_signal(signal.SIGINT)
        try:
            while more := os.read(ours, 65536):
                seen += more
        except OSError:  # It has gone, and the terminal with it.
            pass
        assert child.wait(20) == 0
    finally:
        child.kill()
        child.wait()
        os.close(ours)
    assert HIDE_CURSOR in seen
    assert seen.rindex(SHOW_CURSOR) > seen.rindex(HIDE_CURSOR)
    text = seen.decode()
    assert "█" in text
    assert "s old" in text or "min old" in text or "h old" in text
    assert "tag:b\x1b[2J" not in text
