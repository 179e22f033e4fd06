"""The format of metrics that a scrape asks for, whatever it says in doing so."""

import pytest

from pipeline.metrics.exposition import exposition
from pipeline.metrics.values import Metrics

OPEN = "application/openmetrics-text"
PLAIN = "text/plain; version=0.0.4; charset=utf-8"


@pytest.mark.parametrize(
    "accept",
    [
        "",
        "*/*",
        f"{OPEN};version=",
        f"{OPEN};version=abc",
        f"{OPEN};version=1..0",
        f"{OPEN};version=1.0.0.x",
        f"{OPEN};version=1.0.0.x\r\n y: z",
        f"{OPEN};version=\u0661.0",
        f"{OPEN};version={'1' * 5_000}",
        "text/plain;version=1e,*/*;q=0.1",
    ],
)
def test_who_asks_for_a_version_that_is_none_gets_plain_text(accept: str) -> None:
    found = exposition(Metrics(()), accept)
    assert found.content_type == PLAIN
    assert not found.body.endswith(b"# EOF\n")


@pytest.mark.parametrize(
    "accept",
    [OPEN, f"{OPEN};version=1.0.0;q=0.5,*/*", f"text/plain;version=x,{OPEN}; version=1.0.0"],
)
def test_who_asks_for_openmetrics_gets_it(accept: str) -> None:
    found = exposition(Metrics(()), accept)
    assert found.content_type.startswith(f"{OPEN}; version=1.0.0; charset=utf-8")
    assert found.body.endswith(b"# EOF\n")
