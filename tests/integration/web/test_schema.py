"""Requests made up from the web's own description: none breaks it, and answers are as described."""

import time
from collections.abc import Iterator
from typing import Any

import hypothesis
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given
from schemathesis.checks import not_a_server_error
from schemathesis.core.result import Ok
from schemathesis.schemas import APIOperation, BaseSchema
from schemathesis.specs.openapi.checks import response_schema_conformance

from tests.integration.web.conftest import Site

Operation = APIOperation[Any, Any, Any, Any]
WAIT_S = 0.01
ENDLESS = "/api/v1/events"
TIMEOUT_S = 20.0


@pytest.fixture(scope="module")
def schema(site: Site) -> BaseSchema:
    site.send("likes:x", member="ada", region="eu")
    return schemathesis.openapi.from_url(f"{site.web.url}/openapi.json")


@schemathesis.serializer("application/x-ndjson")
def lines(_: object, value: object) -> bytes:
    """The text as it is; what is no text, as its own line."""
    return str(value).encode(errors="replace")


def operations(schema: BaseSchema) -> Iterator[Operation]:
    """All that end, one after the other; tells how long whoever takes them needs for each."""
    for result in schema.get_all_operations():
        assert isinstance(result, Ok), result
        operation = result.ok()
        if operation.path == ENDLESS:
            continue
        began_s = time.monotonic()
        yield operation
        print(f"{operation.label}: {time.monotonic() - began_s:.1f} s")


def examine(operation: Operation, site: Site, examples: int) -> None:
    """Send made-up requests of one operation; raise when one breaks the web or its word."""
    takes_wait = any(one.name == "wait" for one in operation.query)

    @hypothesis.settings(
        max_examples=examples,
        deadline=None,
        database=None,
        phases=[Phase.generate, Phase.shrink],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=operation.as_strategy())
    def holds(case: schemathesis.Case[Any]) -> None:
        if takes_wait:
            # Receipts of the future would be waited for.
            case.query["wait"] = WAIT_S
        response = case.call(base_url=site.web.url, timeout=TIMEOUT_S)
        case.validate_response(response, checks=[not_a_server_error, response_schema_conformance])

    holds()


def examine_all(schema: BaseSchema, site: Site, examples: int) -> None:
    found = 0
    for operation in operations(schema):
        examine(operation, site, examples)
        found += 1
    assert found >= 12
    assert "Traceback" not in site.web.process.output()
    assert site.web.client.get("/api/v1/counters/likes:x").json()["total"] >= 1


@pytest.mark.timeout(240)
def test_no_request_that_fits_the_description_is_a_server_error(
    schema: BaseSchema, site: Site
) -> None:
    examine_all(schema, site, examples=8)


@pytest.mark.prove
@pytest.mark.timeout(1800)
def test_no_request_of_very_many_is_a_server_error(schema: BaseSchema, site: Site) -> None:
    examine_all(schema, site, examples=200)
