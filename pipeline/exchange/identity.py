"""Who a cluster is, for those it exchanges cells with: a random UUID in its tables.

It is in the data, and not in somebody's settings, so that data that was copied is noticed: two
clusters with one identity would take each other's cells for their own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipeline.errors import OperatorError

if TYPE_CHECKING:
    from pipeline.exchange.side import Side

_READ = (
    "SELECT toString(identity) FROM tally.identity ORDER BY number DESC, made_at, identity LIMIT 1"
)
# Whoever finds none makes one, and others may at the same moment: all must make the same one, as
# the first to look goes on with it at once. A table has an id of its own, but in old kinds of
# databases.
_MAKE_FIRST = (
    "INSERT INTO tally.identity SELECT 1, if(empty(uuid), generateUUIDv4(), uuid), now64(3) "
    "FROM system.tables WHERE database = 'tally' AND name = 'identity'"
)
_MAKE = (
    "INSERT INTO tally.identity SELECT coalesce(max(number), 0) + 1, generateUUIDv4(), now64(3) "
    "FROM tally.identity"
)


def identity_of(side: Side) -> str:
    """The identity of a cluster; one is made where there is none. Blocks; raises as `side` does."""
    if not (found := side.rows(_READ, {})):
        side.run(_MAKE_FIRST, {})
        found = side.rows(_READ, {})
    return str(found[0][0])


def new_identity(side: Side) -> str:
    """Give a cluster another identity, from now on. Blocks; raises as `side` does."""
    side.run(_MAKE, {})
    [[identity]] = side.rows(_READ, {})
    return str(identity)


def check_different(source: Side, source_identity: str, target: Side, target_identity: str) -> None:
    """Raise OperatorError when both are one cluster, or one is a copy of the other."""
    if source_identity == target_identity:
        raise OperatorError(
            f"{source.name} and {target.name} have the same identity: they are the same, or one is "
            "a copy of the other; then run tally exchange --new-identity on the copy"
        )
