"""Requests that break the web's own description: none is a server error, and none writes anything.

What is accepted nevertheless (a text that reads as a number, a parameter nobody knows) is written
as often as the answers say, which the log is asked for.
"""

from typing import Any

import hypothesis
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given
from hypothesis.errors import Unsatisfiable
from schemathesis.checks import not_a_server_error
from schemathesis.generation import GenerationMode
from schemathesis.schemas import BaseSchema
from schemathesis.specs.openapi.checks import response_schema_conformance

from tests.integration.web.conftest import Site
from tests.integration.web.test_schema import TIMEOUT_S, WAIT_S, Operation, operations, schema
from tests.kit.truth.in_log import count_rows

__all__ = ["schema"]

INCREMENT = "/api/v1/counters/{counter}/increment"
BULK = "/api/v1/increments"


class Broken:
    """Sends broken requests, and counts what the answers say was written."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self.refused = 0
        self.accepted = 0

    def examine(self, operation: Operation, examples: int) -> None:
        """Raise where an answer is a server error or not as described."""
        takes_wait = any(one.name == "wait" for one in operation.query)

        @hypothesis.settings(
            max_examples=examples,
            deadline=None,
            database=None,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @given(case=operation.as_strategy(generation_mode=GenerationMode.NEGATIVE))
        def holds(case: schemathesis.Case[Any]) -> None:
            if takes_wait and "wait" in case.query:
                case.query["wait"] = WAIT_S
            response = case.call(base_url=self._site.web.url, timeout=TIMEOUT_S)
            # Before anything may fail: what was written is written.
            self._hear(operation, response.status_code, response.content and response)
            case.validate_response(
                response, checks=[not_a_server_error, response_schema_conformance]
            )

        holds()

    def _hear(self, operation: Operation, status: int, response: Any) -> None:
        if status >= 400:
            self.refused += 1
        elif operation.method.upper() == "POST" and operation.path == INCREMENT:
            self.accepted += 1
        elif operation.method.upper() == "POST" and operation.path == BULK:
            self.accepted += response.json()["accepted"]


def examine_all(schema: BaseSchema, site: Site, examples: int) -> None:
    kafka, broken, found = site.tally.kafka, Broken(site), 0
    before = count_rows(kafka)
    for operation in operations(schema):
        try:
            broken.examine(operation, examples)
        except Unsatisfiable:
            continue  # Nothing in it can be broken.
        found += 1
    assert found >= 15
    assert broken.refused > found, "hardly anything was broken"
    assert count_rows(kafka) - before == broken.accepted
    assert "Traceback" not in site.web.process.output()


@pytest.mark.timeout(300)
def test_no_request_that_breaks_the_description_is_a_server_error_or_writes(
    schema: BaseSchema, site: Site
) -> None:
    examine_all(schema, site, examples=6)


@pytest.mark.prove
@pytest.mark.timeout(1800)
def test_no_broken_request_of_very_many_is_a_server_error_or_writes(
    schema: BaseSchema, site: Site
) -> None:
    examine_all(schema, site, examples=100)
