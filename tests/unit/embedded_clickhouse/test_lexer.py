"""Tokens: what is skipped, what is one piece, how deep it stands."""

import time

import pytest

from pipeline.embedded.clickhouse.lexer import tokens


def texts(sql: bytes) -> list[bytes]:
    return [token.text for token in tokens(sql)]


@pytest.mark.parametrize(
    "comment", [b"-- x ; '\n", b"/* ; ' */", b"# x ; '\n", b"#! x\n", b"\t\r\n ", b"/* a *//* b */"]
)
def test_comments_and_blanks_are_skipped(comment: bytes) -> None:
    assert texts(comment + b"SELECT" + comment + b"1") == [b"SELECT", b"1"]


@pytest.mark.parametrize(
    "literal",
    [
        b"'a;b'",
        rb"'a\'b'",
        b"'a''b'",
        b'"a;b"',
        b"`a``b`",
        b"$$ ; ' $$",
        b"$t$ $$ ; $t$",
        b"'\xff\x00'",
    ],
)
def test_a_literal_is_one_token_whatever_it_holds(literal: bytes) -> None:
    assert texts(b"SELECT " + literal + b";") == [b"SELECT", literal, b";"]


def test_brackets_count_as_depth_and_stand_outside_it() -> None:
    depths = [(token.text, token.depth) for token in tokens(b"f(a[1]) b")]
    assert depths == [
        *((b"f", 0), (b"(", 0), (b"a", 1), (b"[", 1), (b"1", 2), (b"]", 1), (b")", 0), (b"b", 0))
    ]


def test_an_unclosed_comment_reaches_to_the_end() -> None:
    assert texts(b"SELECT 1 /* never closed ; SELECT 2") == [b"SELECT", b"1"]


def test_tokens_are_found_lazily() -> None:
    stream = tokens(b"INSERT " + b"'" * 10_000_001)
    assert next(stream).is_word(b"INSERT")


@pytest.mark.parametrize(
    "sql",
    [
        b"a /* x /* y */ ' */ b",
        b"a /*/ ' */ b",
        b"a /*/**/' */b",
        b"a // ' b\nb",
        b"a -- '\n# '\n#!'\nb /* ' /* */",
    ],
)
def test_comments_end_where_the_engine_ends_them(sql: bytes) -> None:
    assert [token.text for token in tokens(sql)] == [b"a", b"b"]


@pytest.mark.parametrize(
    "text",
    [
        b"SELECT " + b"'\\" * 120_000,
        b'"\\' * 120_000,
        b"$" + b"$".join(b"%d$" % n for n in range(30_000)),
    ],
    ids=["quotes", "names", "heredocs"],
)
def test_what_nobody_closes_takes_no_longer_than_what_somebody_does(text: bytes) -> None:
    began_s = time.monotonic()
    for _ in tokens(text):
        pass
    assert time.monotonic() - began_s < 5


def test_a_quote_that_nobody_closes_holds_the_rest_of_the_text() -> None:
    found = [(token.kind, token.text) for token in tokens(b"SELECT 'a FORMAT b")]
    assert found == [("word", b"SELECT"), ("unclosed", b"'a FORMAT b")]
