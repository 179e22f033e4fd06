"""The token file: what it grants, when it is read again, what a mistake in it does."""

import logging
import os
from pathlib import Path

import pytest

from pipeline.access.access import Access
from pipeline.access.errors import BadTokenError, NoTokenError, TooFastError
from pipeline.access.token_file import CHECK_EVERY_S, TokenFile
from pipeline.access.tokens import digest_of, hash_text, new_token
from pipeline.errors import OperatorError
from schemas.settings import Settings
from tests.kit.clocks import ManualClock

TOKEN = new_token()


def entry(name: str, token: str, *lines: str) -> str:
    return "\n".join([f"[tokens.{name}]", f'hash = "{hash_text(digest_of(token))}"', *lines, ""])


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "tokens.toml"
    file.write_text(entry("ada", TOKEN, 'read = ["likes"]'))
    return file


def rewritten(path: Path, text: str) -> None:
    """As careful programs write: a new file in the place of the old."""
    draft = path.with_suffix(".new")
    draft.write_text(text)
    draft.replace(path)


def access_to(path: Path, clock: ManualClock, rate_max: float = 0.0) -> Access:
    access = Access.of(Settings(tokens=path, rate_max=rate_max), clock)
    assert access is not None
    return access


def test_without_settings_there_is_no_access_to_ask() -> None:
    assert Access.of(Settings(), ManualClock()) is None


def test_a_token_grants_what_its_entry_says(path: Path, clock: ManualClock) -> None:
    grant = access_to(path, clock).grant_of(TOKEN)
    assert grant.name == "ada"
    assert grant.may("read", "likes")
    assert not grant.may("read", "views")
    assert not grant.may("write", "likes")
    assert not grant.may_all("read")


@pytest.mark.parametrize("missing", [None, ""])
def test_no_token_is_told_from_a_wrong_one(
    missing: str | None, path: Path, clock: ManualClock
) -> None:
    access = access_to(path, clock)
    with pytest.raises(NoTokenError, match="Bearer"):
        access.grant_of(missing)
    for wrong in (new_token(), TOKEN + "x", TOKEN[:-1], "tally_", "ä" * 50, "x" * 100_000):
        with pytest.raises(BadTokenError) as refused:
            access.grant_of(wrong)
        assert wrong not in str(refused.value)


def test_a_hash_is_not_a_token(path: Path, clock: ManualClock) -> None:
    access = access_to(path, clock)
    for text in (hash_text(digest_of(TOKEN)), digest_of(TOKEN).hex()):
        with pytest.raises(BadTokenError):
            access.grant_of(text)


def test_a_token_ends_when_it_expires(path: Path, clock: ManualClock) -> None:
    path.write_text(entry("ada", TOKEN, 'expires = "1970-01-01T00:20:00Z"'))
    access = access_to(path, clock)
    clock.now_s = 1199.999
    assert access.grant_of(TOKEN).name == "ada"
    clock.now_s = 1200.0
    with pytest.raises(BadTokenError, match="ada has expired"):
        access.grant_of(TOKEN)


def test_a_revoked_token_ends_within_a_second_and_a_new_one_holds(
    path: Path, clock: ManualClock
) -> None:
    access = access_to(path, clock)
    new = new_token()
    access.grant_of(TOKEN)
    rewritten(path, entry("bob", new))
    access.grant_of(TOKEN)  # Still within the second.
    clock.advance(CHECK_EVERY_S)
    with pytest.raises(BadTokenError, match="revoked"):
        access.grant_of(TOKEN)
    assert access.grant_of(new).name == "bob"


def test_a_change_of_the_same_size_in_place_is_seen(path: Path, clock: ManualClock) -> None:
    access = access_to(path, clock)
    other, before = new_token(), path.stat()
    path.write_text(entry("bob", other, 'read = ["likes"]'))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns + 1))
    assert path.stat().st_size == before.st_size
    clock.advance(CHECK_EVERY_S)
    assert access.grant_of(other).name == "bob"


@pytest.mark.parametrize("spoilt", ["[tokens.ada\n", "[tokens.ada]\nread = 5\n", None])
def test_a_mistake_keeps_the_tokens_and_is_logged_once(
    spoilt: str | None, path: Path, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    access = access_to(path, clock)
    if spoilt is None:
        path.unlink()
    else:
        rewritten(path, spoilt)
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            clock.advance(CHECK_EVERY_S)
            assert access.grant_of(TOKEN).name == "ada"
    assert len(caplog.records) == 1
    assert "the tokens stay as they were" in caplog.text
    assert TOKEN not in caplog.text
    rewritten(path, "")
    clock.advance(CHECK_EVERY_S)
    with pytest.raises(BadTokenError):
        access.grant_of(TOKEN)


def test_a_file_that_is_mistaken_at_the_start_is_refused(path: Path, clock: ManualClock) -> None:
    path.write_text('[tokens.ada]\nhash = "sha256:12"\n')
    with pytest.raises(OperatorError, match=rf"{path}:2: tokens.ada.hash: expected .sha256:"):
        TokenFile(path, clock)
    with pytest.raises(OperatorError, match="tally token add"):
        TokenFile(path.with_name("none.toml"), clock)


def test_each_token_has_its_own_rate_or_the_default(path: Path, clock: ManualClock) -> None:
    quick = new_token()
    path.write_text(entry("ada", TOKEN) + entry("bob", quick, "rate = 5"))
    access = access_to(path, clock, rate_max=1)
    for token, burst in ((TOKEN, 2), (quick, 10)):
        for _ in range(burst):
            access.grant_of(token)
        with pytest.raises(TooFastError, match="asks too often") as refused:
            access.grant_of(token)
        assert refused.value.retry_after_s == pytest.approx(2 / burst)
        assert token not in str(refused.value)
    clock.advance(1.0)
    access.grant_of(TOKEN)


def test_by_default_nobody_asks_too_often(path: Path, clock: ManualClock) -> None:
    access = access_to(path, clock)
    for _ in range(1000):
        access.grant_of(TOKEN)
