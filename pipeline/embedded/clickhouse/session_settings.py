"""What a SET statement sets, so that a session can tell its own settings from a single query's."""

from pipeline.embedded.clickhouse.lexer import tokens


def assignments(sql: bytes) -> dict[str, bytes]:
    """Names and values (as SQL) of a SET statement that the engine has accepted; pure.

    >>> assignments(b"SET a = 1, b = 'x, y', c")
    {'a': b'1', 'b': b"'x, y'", 'c': b'1'}
    """
    found: dict[str, bytes] = {}
    parts = list(tokens(sql))[1:]
    starts = [
        0,
        *(i + 1 for i, token in enumerate(parts) if token.depth == 0 and token.is_sign(b",")),
    ]
    for start, end in zip(starts, [*(s - 1 for s in starts[1:]), len(parts)], strict=True):
        clause = parts[start:end]
        equals = next((i for i, token in enumerate(clause) if token.is_sign(b"=")), len(clause))
        if not clause[:equals]:
            continue
        name = sql[clause[0].start : clause[equals - 1].end].decode("utf-8", "replace").strip('`"')
        value = clause[equals + 1 :]
        found[name] = sql[value[0].start : value[-1].end] if value else b"1"
    return found
