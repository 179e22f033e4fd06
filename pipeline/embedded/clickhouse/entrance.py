"""Who may come in, and as what. Without tokens everybody on this machine may, and do everything."""

import math
from collections.abc import Mapping

from pipeline.access.access import Access
from pipeline.access.errors import AccessError, NotAllowedError, TooFastError
from pipeline.access.grant import Grant
from pipeline.access.sites import check_site
from pipeline.embedded.clickhouse import errors
from pipeline.embedded.clickhouse.credentials import (
    DEFAULT_USER,
    Credentials,
    read_credentials,
    refused,
)
from pipeline.embedded.clickhouse.errors import ClickHouseError


class Entrance:
    """Asks everybody for a token, if there are any; its own word for nobody is a ClickHouseError.

    The token is the password. The user's name may be the token's, `default` or left out; another is
    refused, since whoever set it believes to be somebody else.
    """

    def __init__(self, access: Access | None) -> None:
        self._access = access

    def is_reader(self, headers: Mapping[str, str], values: Mapping[str, str]) -> bool:
        """Whether who asks may only read. Raises ClickHouseError for who may not even do that.

        SQL cannot be limited to families: a right to some of them is none here. Without tokens, a
        page of another site that makes its reader's browser ask is nobody.
        """
        if self._access is None:
            _check_site(headers)
            return False
        credentials = read_credentials(headers, values)
        grant = _grant(self._access, credentials)
        if credentials.user not in {"", DEFAULT_USER, grant.name}:
            raise refused(credentials.user, "the token is another user's")
        if grant.may_all("admin"):
            return False
        if grant.may_all("read"):
            return True
        raise errors.refusal(
            errors.ACCESS_DENIED,
            f"{grant.name}: Not enough privileges. SQL cannot be limited to families, so it needs "
            "the right to read or administer all of them ('*')",
        )


def _check_site(headers: Mapping[str, str]) -> None:
    try:
        check_site(headers)
    except NotAllowedError as error:
        raise errors.refusal(errors.ACCESS_DENIED, str(error)) from None


def _grant(access: Access, credentials: Credentials) -> Grant:
    try:
        return access.grant_of(credentials.password)
    except TooFastError as error:
        sentence = str(error)
        found = errors.refusal(errors.QUOTA_EXCEEDED, sentence)
        raise ClickHouseError(found.code, found.text, math.ceil(error.retry_after_s)) from None
    except AccessError as error:
        raise refused(credentials.user, str(error)) from None
