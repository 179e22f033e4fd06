"""For all tests: which of them share a process, signals that reach the programs they start, and
examples that may take their time: how long one takes says nothing on a machine that others use."""

import signal
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from tests.kit.sharing import Sharing

pytest.register_assert_rewrite("tests.kit")

settings.register_profile("shared", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("shared")


def pytest_configure() -> None:
    """Programs that tests start can be interrupted, even where pytest itself cannot.

    A shell that starts pytest in the background, and `nohup`, have it ignore these signals, and
    children inherit that. What is handled, not ignored, is back to its default in a child.
    """
    for number in (signal.SIGINT, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, lambda *_: None)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> "Sharing":
    """With `-n`, tests that share servers run in one process."""
    from tests.kit.sharing import Sharing

    return Sharing(config, log)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Groups that take longest come first."""
    from tests.kit.sharing import rank

    items.sort(key=lambda item: rank(item.nodeid))
