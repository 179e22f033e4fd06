"""The other cluster's ClickHouse is trusted as this one is, and told nothing of this one's user."""

from pathlib import Path

import pytest

from pipeline.cli.exchange import elsewhere
from schemas.addresses import ClickHouseAddress
from tests.kit.certificates import Authority


def test_the_authority_holds_for_both_and_the_password_for_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority = Authority(tmp_path, "ours")
    cert, key = authority.certificate("client")
    password = tmp_path / "password"
    password.write_text("ours")
    monkeypatch.setenv("TALLY_CLICKHOUSE", "https://here.example")
    monkeypatch.setenv("TALLY_CLICKHOUSE_CA", str(authority.ca))
    monkeypatch.setenv("TALLY_CLICKHOUSE_CERT", str(cert))
    monkeypatch.setenv("TALLY_CLICKHOUSE_KEY", str(key))
    monkeypatch.setenv("TALLY_CLICKHOUSE_PASSWORD_FILE", str(password))
    there = "https://bob:theirs@there.example"
    assert elsewhere(there) == ClickHouseAddress(there, ca=authority.ca)
    assert elsewhere("http://there.example") == ClickHouseAddress("http://there.example")
