"""Names and values as SQL, whatever they hold. Pure.

The engine runs every statement that a text holds, so nothing of a client's goes in unquoted.
"""


def quoted(text: str) -> bytes:
    """A string literal."""
    return b"'%s'" % _escaped(text, "'")


def identifier(name: str) -> bytes:
    """A quoted name."""
    return b"`%s`" % _escaped(name, "`")


def setting_name(name: str) -> bytes:
    """A setting's name, bare when it is a (dotted) word, which is all that SET understands."""
    plain = name.replace(".", "_")
    return name.encode() if plain.isascii() and plain.isidentifier() else identifier(name)


def _escaped(text: str, quote: str) -> bytes:
    safe = text.replace("\\", "\\\\").replace(quote, "\\" + quote)
    return safe.encode("utf-8", "surrogateescape")
