from kio.schema.errors import ErrorCode

from pipeline.embedded.log.handlers.apis import APIS, NAMES
from pipeline.embedded.log.handlers.errors_in import first_error

NONE, AWAY = ErrorCode.none, ErrorCode.unknown_topic_or_partition


def test_an_answer_without_errors_has_none() -> None:
    assert first_error({"throttle": 0, "error_code": NONE, "topics": [], "names": ["a"]}) is None


def test_the_error_of_one_of_several_is_found() -> None:
    parts = [{"partition": 0, "error_code": NONE}, {"partition": 1, "error_code": AWAY}]
    assert first_error({"topics": [{"name": "t", "partitions": parts}]}) is AWAY


def test_every_request_has_a_name_of_its_own() -> None:
    assert NAMES.keys() == APIS.keys()
    assert len(set(NAMES.values())) == len(NAMES)
