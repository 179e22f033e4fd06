"""`tally up` with tokens: the pipeline counts, readers read, and no secret is printed anywhere."""

import json
import subprocess
from pathlib import Path
from urllib.parse import urlsplit

import clickhouse_connect
import pytest
from clickhouse_connect.driver.exceptions import DatabaseError

from pipeline.access.edit import edit_tokens, with_token
from pipeline.access.tokens import digest_of, hash_text, is_token, new_token
from schemas.tokens import TokenTable
from tests.integration.test_up import FREE_PORTS, found, refusal, tally_up
from tests.kit.processes import PATIENCE_S
from tests.kit.tally import RunningTally
from tests.kit.waiting import eventually

pytestmark = pytest.mark.timeout(300)

COUNTER = "likes:post-42"
WRONG = "s3cret-that-is-wrong"
CHECKPOINTED = (
    "SELECT min(at) > toDateTime64(0, 3) FROM "
    "(SELECT max(checkpointed_at) AS at FROM tally.positions GROUP BY shard)"
)
READING = (
    ("count", COUNTER, "--by", "1m"),
    ("unique", COUNTER),
    ("explain", COUNTER),
    ("top", "likes"),
    ("trending", "likes"),
    ("dead-letters",),
    ("status",),
)


def own_token(pid: int) -> str:
    """The pipeline's own, which only its processes know."""
    lines = Path(f"/proc/{pid}/environ").read_text().split("\0")
    urls = [line.partition("=")[2] for line in lines if line.startswith("TALLY_CLICKHOUSE=")]
    url = urlsplit(urls[0])
    assert url.username == "tally"
    assert is_token(url.password or "")
    return url.password or ""


def refused(kafka: str, address: str) -> list[str]:
    """All that a command prints, traceback and all, when its password is wrong or nobody there."""
    url = f"http://default:{WRONG}@{address}"
    done = RunningTally(kafka, url).run_process("count", COUNTER, "--debug", code=1)
    assert "Traceback" in done.stderr
    return [done.stdout, done.stderr]


def holders(folder: Path, secrets: tuple[str, ...]) -> str:
    """Names of the files that hold one of the secrets."""
    search = ["grep", "-rlaF", *(f"-e{secret}" for secret in secrets), str(folder)]
    done = subprocess.run(search, check=False, timeout=PATIENCE_S, capture_output=True, text=True)
    assert done.returncode in {0, 1}, done.stderr
    return done.stdout


def test_the_pipeline_counts_readers_read_and_no_secret_is_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, data, reader = tmp_path / "tokens.toml", tmp_path / "data", new_token()
    table = TokenTable(hash=hash_text(digest_of(reader)), read=["*"])
    edit_tokens(file, lambda text: with_token(text, "dashboard", table))
    monkeypatch.setenv("TALLY_TOKENS", str(file))
    outputs = []
    with tally_up(data, *FREE_PORTS) as process:
        where = found(process, data)
        own = own_token(where.pids["worker"])
        outputs.append((data / "addresses.json").read_text())
        outputs += [Path(f"/proc/{pid}/cmdline").read_text() for pid in where.pids.values()]
        host = urlsplit(where.clickhouse).netloc
        tally = RunningTally(where.kafka, f"http://dashboard:{reader}@{host}")
        tally.run("produce", "-", stdin=json.dumps({"counter": COUNTER, "member": "ada"}))

        def total() -> int:
            done = tally.run("count", COUNTER, "--mode", "exact", "--json")
            return int(json.loads(done.stdout)["total"])

        eventually(lambda: total() == 1, "the count")
        eventually(lambda: tally.rows(CHECKPOINTED) == [(1,)], "every shard is checkpointed")
        for command in READING:
            done = tally.run(*command)
            outputs += [done.stdout, done.stderr]
        outputs += [*refused(where.kafka, host), *refused(where.kafka, "127.0.0.1:1")]
        with pytest.raises(DatabaseError, match="516"):
            clickhouse_connect.get_client(dsn=where.clickhouse)
        process.terminate()
        printed, error = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, error) == (0, "")
    assert f"TALLY_CLICKHOUSE=http://default:TOKEN@{host}" in printed
    outputs += [printed, *(path.read_text() for path in (data / "logs").iterdir())]
    secrets = (reader, own, WRONG)
    assert [text for text in outputs if any(secret in text for secret in secrets)] == []
    assert holders(data, secrets) == ""
    assert holders(data, (COUNTER,)) != "", "the search finds what is there"


def test_a_mistaken_token_file_is_refused_before_anything_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "tokens.toml"
    file.write_text("[tokens.ada]\nhsah = 5\n")
    monkeypatch.setenv("TALLY_TOKENS", str(file))
    error = refusal(tmp_path / "data", *FREE_PORTS)
    assert error.startswith(f"tally: {file}:1: tokens.ada: it has no hash")
