"""Text of strangers on a terminal: readable, in one line, and without power over it."""

import io
import sys

import pytest

from pipeline.cli.printable import printable, write_line


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("likes:post-42", "likes:post-42"),
        ("likes:\x1b[2Jgone", r"likes:\x1b[2Jgone"),
        ("a:b\nlikes:forged  +1000", r"a:b\nlikes:forged  +1000"),
        ("a:\r\t\x00\x7f", r"a:\r\t\x00\x7f"),
        ("a:\x9b2J", r"a:\x9b2J"),
        ("a:\u202egnp.exe", r"a:\u202egnp.exe"),
        ("a:\u2028b", r"a:\u2028b"),
        ("a:\ud800", r"a:\ud800"),
        ("hashtag:#кот 猫 🐈", "hashtag:#кот 猫 🐈"),
        (r"path:C:\new", r"path:C:\new"),
    ],
)
def test_what_a_terminal_would_obey_is_shown_instead(text: str, shown: str) -> None:
    assert printable(text) == shown


def test_a_cut_text_ends_with_an_ellipsis_and_never_inside_an_escape() -> None:
    assert printable("abcdef", 3) == "abc…"
    assert printable("abc", 3) == "abc"
    assert printable("ab\x1bdef", 3) == r"ab\x1b…"


def test_a_character_that_the_encoding_lacks_is_escaped(monkeypatch: pytest.MonkeyPatch) -> None:
    raw = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(raw, encoding="ascii"))
    write_line("hashtag:#猫")
    sys.stdout.flush()
    assert raw.getvalue() == b"hashtag:#\\u732b\n"
