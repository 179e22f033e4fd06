"""Grants allow nothing they lack, random tokens match nothing, and rates hold over any stretch."""

import tomllib
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.access.access import Access
from pipeline.access.buckets import BURST_SECONDS, Buckets
from pipeline.access.edit import with_token
from pipeline.access.errors import AccessError, NotAllowedError
from pipeline.access.grant import ALL, Grant, Right, Rights
from pipeline.access.granting import known_of
from pipeline.access.tokens import Known, digest_of, find, hash_text, new_token
from schemas.tokens import TokenTable, parse_tokens
from tests.kit.clocks import ManualClock

RIGHTS: tuple[Right, ...] = get_args(Right)
FAMILY = st.sampled_from(["likes", "views", "hashtag", "", "*", "likes "])
FAMILIES = st.frozensets(FAMILY, max_size=4)
RIGHTS_OF = st.builds(Rights, FAMILIES, FAMILIES, FAMILIES)
MINE = Grant("mine", Rights(admin=frozenset({ALL})))


@given(RIGHTS_OF, FAMILY, st.sampled_from(RIGHTS))
def test_no_grant_allows_what_it_lacks(rights: Rights, family: str, right: Right) -> None:
    grant = Grant("ada", rights)
    named = {"read": rights.read, "write": rights.write, "admin": rights.admin}
    written = named[right] | named["admin"]
    allowed = any(one in {family, ALL} for one in written)
    assert grant.may(right, family) == allowed
    assert grant.may_all(right) == (ALL in written)
    if not allowed:
        with pytest.raises(NotAllowedError):
            grant.require(right, family)


@given(RIGHTS_OF, st.sampled_from(RIGHTS), st.text(max_size=8))
def test_who_may_all_may_each(rights: Rights, right: Right, family: str) -> None:
    grant = Grant("ada", rights)
    assert grant.may(right, family) or not grant.may_all(right)


@given(st.integers(0, 40), st.text(max_size=60))
def test_random_tokens_and_texts_match_nothing(others: int, text: str) -> None:
    known = [Known(MINE, digest_of(new_token())) for _ in range(others)]
    access = Access(ManualClock(), also=known)
    for wrong in (new_token(), text):
        assert find(known, wrong) is None
        with pytest.raises(AccessError):
            access.grant_of(wrong)


@given(st.integers(0, 42), st.sampled_from("ABab01-_"))
def test_a_token_with_one_other_character_matches_nothing(place: int, character: str) -> None:
    token = new_token()
    at = len(token) - 1 - place
    other = token[:at] + character + token[at + 1 :]
    access = Access(ManualClock(), also=[Known(MINE, digest_of(token))])
    assert access.grant_of(token) is MINE
    if other != token:
        with pytest.raises(AccessError):
            access.grant_of(other)


@given(
    st.floats(0.1, 1000),
    st.lists(st.floats(0, 5), min_size=1, max_size=200),
    st.integers(1, 3),
)
def test_no_stretch_of_time_has_more_requests_than_burst_and_rate(
    rate: float, gaps_s: list[float], tries: int
) -> None:
    buckets, now_s, taken_s = Buckets(), 0.0, list[float]()
    for gap_s in gaps_s:
        now_s += gap_s
        for _ in range(tries):
            if buckets.take("a", rate, now_s) == 0.0:
                taken_s.append(now_s)
    burst = max(1.0, rate) * BURST_SECONDS
    for first in range(len(taken_s)):
        stretch_s = taken_s[-1] - taken_s[first]
        assert len(taken_s) - first <= burst + rate * stretch_s + 1e-6


@given(st.floats(0.1, 1000), st.integers(1, 5000))
def test_after_the_wait_that_was_told_the_request_is_taken(rate: float, tries: int) -> None:
    buckets = Buckets()
    waits_s = [buckets.take("a", rate, 0.0) for _ in range(tries)]
    if waits_s[-1] > 0:
        assert buckets.take("a", rate, waits_s[-1] * (1 + 1e-9)) == 0.0


NAMES = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}", fullmatch=True)
FAMILY_NAMES = st.text(
    st.characters(exclude_characters=":", exclude_categories=["Cs"]), min_size=1, max_size=40
)


@given(st.dictionaries(NAMES, st.lists(FAMILY_NAMES, max_size=3), max_size=5))
def test_a_written_file_reads_back_as_it_was_meant(wanted: dict[str, list[str]]) -> None:
    text = "# ours\n"
    for name, families in wanted.items():
        table = TokenTable(hash=hash_text(digest_of(new_token())), read=families, rate=2.5)
        text = with_token(text, name, table)
    assert text.startswith("# ours\n")
    assert list(tomllib.loads(text).get("tokens", {})) == list(wanted)
    grants = {one.grant.name: one.grant for one in known_of(parse_tokens(text))}
    for name, families in wanted.items():
        assert grants[name].rights == Rights(read=frozenset(families))
        assert grants[name].rate == 2.5
