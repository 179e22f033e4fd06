"""The pipeline's own token: known to the server by its hash, shown to nobody."""

import io
import json
from pathlib import Path

import pytest
from rich.console import Console

from pipeline.access.access import Access
from pipeline.access.errors import BadTokenError
from pipeline.access.own import OWN_HASH, own_hash, own_known
from pipeline.access.tokens import Known, new_token
from pipeline.errors import OperatorError
from pipeline.local.demo_reads import Seen
from pipeline.local.demo_scene import Scene
from pipeline.local.up import Addresses, next_steps, stages, write_addresses
from schemas.addresses import ClickHouseAddress, with_user, without_secrets
from schemas.settings import Settings
from tests.kit.clocks import ManualClock

TOKEN = new_token()
OPEN = Addresses(1, 2, 3)
GUARDED = Addresses(1, 2, 3, token=TOKEN)


def test_a_server_knows_the_token_by_its_hash() -> None:
    environment = own_hash(TOKEN)
    assert TOKEN not in str(environment)
    access = Access(ManualClock(), also=own_known(environment), rate_max=0.001)
    for _ in range(10):  # Whatever the default rate is: a worker must not be held up by it.
        assert access.grant_of(TOKEN).may_all("admin")
    with pytest.raises(BadTokenError):
        access.grant_of(new_token())


def test_without_a_hash_there_is_no_such_token_and_a_wrong_one_is_refused() -> None:
    assert own_known({}) == ()
    for text in ("sha256:12", "0" * 64, f"sha256:{'G' * 64}"):
        with pytest.raises(OperatorError, match=OWN_HASH):
            own_known({OWN_HASH: text})


def test_only_the_pipelines_processes_are_told() -> None:
    (log, clickhouse), workers = stages(Path("data"), GUARDED, 2)
    for worker in workers:
        assert worker.environment["TALLY_CLICKHOUSE"] == f"http://tally:{TOKEN}@127.0.0.1:2"
    assert clickhouse.environment == own_hash(TOKEN)
    assert log.environment == {"TALLY_METRICS": ""}
    for part in (log, clickhouse, *workers):
        assert TOKEN not in repr(part)
        assert TOKEN not in " ".join(part.argv)


def test_without_tokens_nothing_changes() -> None:
    (log, clickhouse), (worker, web) = stages(Path("data"), OPEN, 1)
    assert (log.environment, clickhouse.environment) == ({"TALLY_METRICS": ""}, {})
    assert worker.environment == web.environment
    assert OPEN.shown.items() <= worker.environment.items()
    assert "TOKEN" not in next_steps(Path("data"), OPEN)


def test_people_files_and_tracebacks_see_no_token(tmp_path: Path) -> None:
    file = tmp_path / "addresses.json"
    write_addresses(file, GUARDED, {"worker": 5})
    assert json.loads(file.read_text())["clickhouse"] == "http://127.0.0.1:2"
    steps = next_steps(tmp_path, GUARDED)
    assert "TALLY_CLICKHOUSE=http://default:TOKEN@127.0.0.1:2" in steps
    seen = Seen(None, {"likes": [("likes:a", 1)]}, [], [])
    scene = Scene(0, 1, 1.0, seen, GUARDED.environment)
    console = Console(file=io.StringIO(), width=200, record=True)
    console.print(scene.render())
    shown = console.export_text()
    assert "http://default:TOKEN@127.0.0.1:2" in shown
    settings = Settings(clickhouse=ClickHouseAddress(GUARDED.environment["TALLY_CLICKHOUSE"]))
    texts = [file.read_text(), steps, shown, repr(scene), repr(GUARDED), repr(settings)]
    known = own_known(own_hash(TOKEN))
    texts += [str(settings), repr(known)]
    assert isinstance(known[0], Known)
    assert known[0].digest.hex() not in repr(known)
    assert [text for text in texts if TOKEN in text] == []


def test_a_url_takes_another_user() -> None:
    assert with_user("https://a:b@h:1/x", "u", "p") == "https://u:p@h:1/x"
    assert without_secrets(with_user("http://h", "u", "p")) == "http://h"
