"""A file of SQL taken apart into statements, of which ClickHouse takes one at a time over HTTP."""

import re

# Whole tokens in which a semicolon ends nothing: comments, text and quoted names (with doubled and
# escaped quotes). What is left is a semicolon at a line's end, or any other single character.
_TOKEN = re.compile(
    r"""
    (?P<comment> --[^\n]* | /\*.*?\*/ )
  | (?P<quoted> '(?:[^'\\]|\\.|'')*' | "(?:[^"\\]|\\.|"")*" | `(?:[^`\\]|\\.|``)*` )
  | (?P<end> ;(?=[ \t\r]*(?:--[^\n]*)?(?:\n|\Z)) )
  | (?P<other> . )
    """,
    re.DOTALL | re.VERBOSE,
)


def split_statements(text: str) -> list[str]:
    """The statements, without comments and final semicolons; empty ones are left out.

    A statement ends at a semicolon that ends its line, outside quotes and comments. Never raises.
    """
    statements: list[str] = []
    current: list[str] = []
    for token in _TOKEN.finditer(text):
        if token.lastgroup == "end":
            statements.append("".join(current).strip())
            current = []
        elif token.lastgroup == "comment":
            # A comment separates words as a space does.
            current.append(" ")
        else:
            current.append(token[0])
    statements.append("".join(current).strip())
    return [statement for statement in statements if statement]
