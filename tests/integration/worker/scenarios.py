"""Ties a test to the scenario whose outcome it asks for."""

from collections.abc import Callable
from typing import TypeVar

import pytest

from tests.integration.worker.site import Site
from tests.kit.kafka import BROKERS_OF_LONG_FORMS

Scenario = Callable[[Site, int], None]
"""Takes a site and a seed; raises AssertionError when what it proves does not hold."""

Test = TypeVar("Test", bound=Callable[..., None])

ONE_BROKER = pytest.mark.parametrize("site", BROKERS_OF_LONG_FORMS, indirect=True)
"""For what depends on the broker least: on a real Kafka it is a long form."""

_ATTRIBUTE = "worker_scenario"


def proved_by(scenario: Scenario) -> Callable[[Test], Test]:
    """Marks a test whose scenario runs beside the others, once per broker."""

    def mark(test: Test) -> Test:
        setattr(test, _ATTRIBUTE, scenario)
        return test

    return mark


def scenario_of(test: object) -> Scenario | None:
    """The scenario of a test, if it has one."""
    found: Scenario | None = getattr(test, _ATTRIBUTE, None)
    return found
