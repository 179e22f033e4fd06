"""Requests: what is a setting, what is not, and what is refused."""

import pytest
from multidict import CIMultiDict

from pipeline.embedded.clickhouse.errors import ClickHouseError
from pipeline.embedded.clickhouse.form import ExternalTable
from pipeline.embedded.clickhouse.request import Request, parse_request


def of(method: str = "POST", headers: dict[str, str] | None = None, **values: str) -> Request:
    return parse_request(method, values.items(), CIMultiDict(headers or {}))


def test_every_other_name_is_a_setting() -> None:
    request = of(
        query="SELECT 1", query_id="q", database="d", user="u", password="p", session_id="s",
        compress="1", param_x="5", max_threads="2", anything="3",
    )  # fmt: skip
    assert request.settings == {"max_threads": "2", "anything": "3"}
    assert request.parameters == {"x": "5"}
    assert (request.query, request.query_id, request.database) == (b"SELECT 1", "q", "d")


def test_early_acknowledgement_is_not_passed_on() -> None:
    assert of(async_insert="1", wait_for_async_insert="0").settings == {}


def test_the_url_wins_over_headers_and_headers_over_defaults() -> None:
    headers = {"x-clickhouse-format": "CSV", "x-clickhouse-database": "h"}
    assert of().default_format == "TabSeparated"
    assert of(headers=headers).default_format == "CSV"
    assert of(headers=headers, default_format="JSON").default_format == "JSON"
    assert of(headers=headers).database == "h"
    assert of(headers=headers, database="u").database == "u"


@pytest.mark.parametrize(
    ("method", "values", "readonly"),
    [
        ("GET", {}, True),
        ("HEAD", {}, True),
        ("POST", {}, False),
        ("POST", {"readonly": "2"}, True),
        ("POST", {"readonly": "0"}, False),
    ],
)
def test_get_and_readonly_only_read(method: str, values: dict[str, str], readonly: bool) -> None:
    assert of(method, None, **values).readonly is readonly


@pytest.mark.parametrize(
    ("header", "names"),
    [
        ("gzip, br", ("gzip", "br")),
        ("zstd;q=0.5 , LZ4", ("zstd", "lz4")),
        ("gzip;q=0, br", ("br",)),
        ("gzip; q=0.0", ()),
        ("", ()),
    ],
)
def test_accepted_encodings_keep_the_clients_order(header: str, names: tuple[str, ...]) -> None:
    assert of(headers={"Accept-Encoding": header}).accepted_encodings == names
    off = of(headers={"Accept-Encoding": header}, enable_http_compression="0")
    assert off.accepted_encodings == ()


def test_a_session_has_a_time() -> None:
    assert of().session is None
    plain, long = of(session_id="s").session, of(session_id="s", session_timeout="100").session
    assert plain is not None
    assert long is not None
    assert (plain.timeout_s, long.timeout_s, plain.must_exist) == (60, 100, False)


@pytest.mark.parametrize(
    ("values", "code"),
    [
        ({"session_id": "s", "session_timeout": "x"}, 374),
        ({"session_id": "s", "session_timeout": "99999"}, 374),
        ({"max_query_size": "many"}, 36),
        ({"client_protocol_version": "-1"}, 36),
    ],
)
def test_numbers_that_are_none_are_refused(values: dict[str, str], code: int) -> None:
    with pytest.raises(ClickHouseError) as caught:
        of("POST", None, **values)
    assert caught.value.code == code


BEYOND_A_NAME = ["TSV; DROP TABLE t", "CSV SETTINGS a = 1", "TSV\n;", "'x'", "a" * 101, "1a", "é"]


@pytest.mark.parametrize("name", BEYOND_A_NAME)
def test_a_format_that_is_no_name_is_refused_wherever_it_comes_from(name: str) -> None:
    table = {"a_structure": "x UInt8", "a_format": name}
    ways: list[tuple[dict[str, str], dict[str, str], dict[str, bytes]]] = [
        ({"default_format": name}, {}, {}),
        ({}, {"X-ClickHouse-Format": name}, {}),
        (table, {}, {"a": b"1"}),
    ]
    for values, headers, files in ways:
        with pytest.raises(ClickHouseError) as refused:
            parse_request("POST", values.items(), CIMultiDict(headers), files)
        assert (refused.value.code, refused.value.status) == (73, 404)
        assert len(str(refused.value)) < 150


def test_files_become_tables_and_their_description_no_settings() -> None:
    values = {"a_structure": "x UInt8", "a_format": "CSV", "b_types": "UInt8,String", "c": "1"}
    request = parse_request("POST", values.items(), {}, {"a": b"1", "b": b"2"})
    assert request.settings == {"c": "1"}
    assert request.tables == (
        ExternalTable("a", "x UInt8", "CSV", b"1"),
        ExternalTable("b", "_1 UInt8, _2 String", "TabSeparated", b"2"),
    )


def test_a_file_that_nothing_describes_is_refused() -> None:
    with pytest.raises(ClickHouseError):
        parse_request("POST", [], {}, {"a": b"1"})


@pytest.mark.parametrize("name", ["client_protocol_version", "max_query_size", "session_timeout"])
def test_a_number_of_thousands_of_digits_is_refused_as_any_other_that_is_none(name: str) -> None:
    pairs = [("session_id", "a"), (name, "9" * 5000)]
    with pytest.raises(ClickHouseError) as refused:
        parse_request("POST", pairs, {})
    assert len(str(refused.value)) < 300
