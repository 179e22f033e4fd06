"""ClickHouse behind TLS: the whole path over https, and what is told when that fails."""

import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from pydantic import SecretStr

from pipeline.clickhouse import connect
from pipeline.errors import OperatorError
from schemas.addresses import ClickHouseAddress
from tests.kit.certificates import Authority
from tests.kit.door import Door
from tests.kit.embedded import EmbeddedLog
from tests.kit.processes import wait_until
from tests.kit.tally import RunningTally, start_worker
from tests.kit.tls_proxy import tls_in_front_of

PASSWORD = "not in the URL"


@pytest.fixture(scope="module")
def tally(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningTally]:
    folder = tmp_path_factory.mktemp("tls")
    authority = Authority(folder, "ours")
    cert, key = authority.certificate("client")
    password = folder / "password"
    password.write_text(f"{PASSWORD}\n")
    door, log = Door(folder), EmbeddedLog(folder / "log")
    try:
        door.start()
        log.start()
        with tls_in_front_of(urlsplit(door.url).port or 0, authority, folder) as port:
            settings = {
                "TALLY_CLICKHOUSE_CA": str(authority.ca),
                "TALLY_CLICKHOUSE_CERT": str(cert),
                "TALLY_CLICKHOUSE_KEY": str(key),
                "TALLY_CLICKHOUSE_PASSWORD_FILE": str(password),
            }
            url = f"https://127.0.0.1:{port}"
            running = RunningTally(log.bootstrap, url, door=door, settings=settings)
            with start_worker(running, folder / "worker.txt"):
                yield running
    finally:
        log.kill()
        door.kill()


def refused(tally: RunningTally, settings: Mapping[str, str]) -> str:
    """What `tally count` says with these settings."""
    other = replace(tally, settings={**tally.settings, **settings})
    return other.run("count", "safe:a", code=1).stderr


def test_what_is_sent_is_counted_over_https(tally: RunningTally) -> None:
    tally.run("produce", "-", stdin='{"counter": "safe:a", "delta": 7}\n')
    wait_until(lambda: tally.json("count", "safe:a")["total"] == 7, "it is counted")
    findings = json.loads(tally.run("doctor", "--json").stdout)["findings"]
    found = {finding["name"]: (finding["state"], finding["detail"]) for finding in findings}
    assert found["TLS of ClickHouse"] == ("ok", "TLSv1.3; the certificate is good for 30 days")


def test_an_authority_that_is_not_trusted_is_told_at_once(
    tally: RunningTally, tmp_path: Path
) -> None:
    other = {"TALLY_CLICKHOUSE_CA": str(Authority(tmp_path, "stranger").ca)}
    said = refused(tally, other)
    assert f"ClickHouse at {tally.clickhouse} and this client do not agree on TLS" in said
    assert "check TALLY_CLICKHOUSE_CA" in said
    assert len(said.splitlines()) == 1
    assert PASSWORD not in said


def test_a_port_without_tls_is_told_at_once(tally: RunningTally) -> None:
    assert tally.door is not None
    plain = tally.door.url.replace("http:", "https:")
    said = refused(tally, {"TALLY_CLICKHOUSE": plain})
    assert "do not agree on TLS (" in said
    assert "the URL in TALLY_CLICKHOUSE" in said


def test_a_refused_user_is_told_at_once() -> None:
    with strict_clickhouse() as url, pytest.raises(OperatorError) as told:
        connect(ClickHouseAddress(url, SecretStr("wrong-one")))
    assert f"ClickHouse at {url} refused user default: check" in str(told.value)
    assert "wrong-one" not in str(told.value)


class _Refusing(BaseHTTPRequestHandler):
    """Answers as ClickHouse does to somebody it does not know."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        said = b"Code: 516. DB::Exception: Authentication failed. (AUTHENTICATION_FAILED)"
        self.send_response(403)
        self.send_header("X-ClickHouse-Exception-Code", "516")
        self.send_header("Content-Length", str(len(said)))
        self.end_headers()
        self.wfile.write(said)

    do_GET = do_POST  # noqa: N815 - the name that the server calls

    def log_message(self, *_: object) -> None:
        """Nobody reads it."""


@contextmanager
def strict_clickhouse() -> Iterator[str]:
    server = HTTPServer(("127.0.0.1", 0), _Refusing)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
