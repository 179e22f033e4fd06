"""Errors: codes and statuses out of the engine's words."""

import pytest

from pipeline.embedded.clickhouse import errors


@pytest.mark.parametrize(
    ("code", "status"),
    [(60, 404), (62, 400), (27, 400), (164, 500), (48, 501), (159, 408), (241, 500), (229, 413)],
)
def test_a_code_has_the_status_that_clickhouse_gives_it(code: int, status: int) -> None:
    assert errors.ClickHouseError(code, "").status == status


def test_the_engines_message_is_kept_from_its_code_to_its_version() -> None:
    words = "Streaming failed: Code: 60. DB::Exception: No t. (UNKNOWN_TABLE) (version 1.2 (build))"
    error = errors.from_engine(words)
    assert (error.code, error.text) == (60, "Code: 60. DB::Exception: No t. (UNKNOWN_TABLE)")
    assert error.body("9.9") == "Code: 60. DB::Exception: No t. (UNKNOWN_TABLE) (version 9.9)\n"


def test_a_message_without_a_code_is_an_unknown_exception() -> None:
    error = errors.from_engine("something broke.")
    assert error.code == 1002
    assert error.text == "Code: 1002. DB::Exception: something broke. (UNKNOWN_EXCEPTION)"
