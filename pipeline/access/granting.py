"""Rights as they are written to grants. Pure."""

from pipeline.access.grant import Grant, Rights
from pipeline.access.tokens import Known
from schemas.tokens import RightsTable, TokensTable


def granted(name: str, table: RightsTable) -> Grant:
    """What a table of the token file or a JWT's claim grants."""
    rights = Rights(frozenset(table.read), frozenset(table.write), frozenset(table.admin))
    return Grant(name, rights, table.rate)


def known_of(table: TokensTable) -> tuple[Known, ...]:
    """All tokens of a file."""
    return tuple(
        Known(granted(name, token), token.digest, token.expires)
        for name, token in table.tokens.items()
    )
