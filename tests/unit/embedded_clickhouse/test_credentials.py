"""All the ways to say who asks, and what is said to who is refused."""

import base64

import pytest

from pipeline.embedded.clickhouse.credentials import Credentials, read_credentials, refused
from pipeline.embedded.clickhouse.errors import ClickHouseError


def basic(text: str) -> dict[str, str]:
    return {"Authorization": "Basic " + base64.b64encode(text.encode()).decode()}


@pytest.mark.parametrize(
    ("headers", "values", "found"),
    [
        ({}, {}, ("", "")),
        (basic("ada:tok:en"), {}, ("ada", "tok:en")),
        (basic(":token"), {}, ("", "token")),
        ({"Authorization": "Bearer token"}, {}, ("", "token")),
        ({"Authorization": "bearer  token "}, {}, ("", "token")),
        ({"X-ClickHouse-User": "ada", "X-ClickHouse-Key": "token"}, {}, ("ada", "token")),
        ({"X-ClickHouse-Key": "token"}, {}, ("", "token")),
        ({}, {"user": "ada", "password": "token", "query": "x"}, ("ada", "token")),
        ({}, {"password": "token"}, ("", "token")),
        ({}, {"user": "ada"}, ("ada", "")),
    ],
)
def test_credentials_are_found(
    headers: dict[str, str], values: dict[str, str], found: tuple[str, str]
) -> None:
    assert read_credentials(headers, values) == Credentials(*found)


@pytest.mark.parametrize(
    ("headers", "values"),
    [
        ({"Authorization": "Digest token"}, {}),
        ({"Authorization": "Basic token!"}, {}),
        ({"Authorization": "Basic /w=="}, {}),
        (basic("ada:token"), {"password": "token"}),
        ({"X-ClickHouse-Key": "token"}, {"user": "ada"}),
    ],
)
def test_garbled_or_double_credentials_are_refused(
    headers: dict[str, str], values: dict[str, str]
) -> None:
    with pytest.raises(ClickHouseError, match="Authentication failed") as error:
        read_credentials(headers, values)
    assert (error.value.code, error.value.status) == (516, 403)
    assert "token" not in error.value.text


def test_a_users_name_is_repeated_only_if_it_is_one() -> None:
    assert "ada: Authentication failed: why" in refused("ada", "why").text
    assert "default: Authentication failed" in refused("a\r\nb", "why").text
    assert len(refused("x" * 5000, "why").text) < 200
    assert "token" not in repr(Credentials("ada", "token"))
