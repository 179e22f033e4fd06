"""The pipeline's own token: made anew at each start of `tally up`, never written down.

The embedded ClickHouse is given the hash and the workers the token, each in its environment, which
other users of the machine cannot read, as they can a command line.
"""

import re
from collections.abc import Mapping

from pipeline.access.grant import ALL, Grant, Rights
from pipeline.access.tokens import HASH_PREFIX, Known, digest_of, hash_text
from pipeline.errors import OperatorError

OWN_NAME = "tally"
OWN_HASH = "TALLY_OWN_HASH"

_HEX = re.compile(r"[0-9a-f]{64}")


def own_hash(token: str) -> dict[str, str]:
    """What goes into the environment of a server that shall know the token."""
    return {OWN_HASH: hash_text(digest_of(token))}


def own_known(environment: Mapping[str, str]) -> tuple[Known, ...]:
    """The pipeline's token as a server finds it, with every right; raises OperatorError."""
    text = environment.get(OWN_HASH, "")
    if not text:
        return ()
    digits = text.removeprefix(HASH_PREFIX)
    if digits == text or _HEX.fullmatch(digits) is None:
        raise OperatorError(f"{OWN_HASH} is no hash of a token; it is set by `tally up`")
    grant = Grant(OWN_NAME, Rights(admin=frozenset({ALL})))
    return (Known(grant, bytes.fromhex(digits)),)
