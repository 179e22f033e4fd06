import json

import pytest
from pydantic import ValidationError

from pipeline.errors import BadInputError
from schemas.events import FIELDS, Event, event_json_schema, read_event

ACCEPTED = [
    ('{"counter":"likes:post-42"}', {}),
    ('{"counter":"likes:post-42","delta":-3}', {"delta": -3}),
    ('{"counter":"likes:post-42","delta":1099511627776}', {"delta": 2**40}),
    ('{"counter":"likes:post-42","delta":2.0}', {"delta": 2}),
    ('{"counter":"likes:post-42","delta":1e3}', {"delta": 1000}),
    ('{"counter":"likes:post-42","delta":null,"region":null}', {}),
    ('{"counter":"likes:post-42","delta":5,"delta":6}', {"delta": 6}),
    ('{"counter":"likes:post-42","at":0}', {"at": 0}),
    ('{"counter":"likes:post-42","at":"1970-01-01T00:00:01Z"}', {"at": 1000}),
    ('{"counter":"likes:post-42","at":4294967295999}', {"at": 4294967295999}),
    ('{"counter":"likes:post-42","region":""}', {}),
    ('{"counter":"likes:post-42","member":"ada","id":"7"}', {"member": "ada", "id": "7"}),
    ('{"counter":"likes:post-42","colour":{"deep":[1]}}', {}),
    ('{"counter":"likes::"}', {"counter": "likes::"}),
    ('{"counter":"a:b:c"}', {"counter": "a:b:c"}),
]

TIME = "at: not a time; give milliseconds since 1970 or RFC 3339 text"
REFUSED = [
    ("{}", "counter: missing"),
    ('{"counter":null}', "counter: missing"),
    ('{"counter":5}', "counter: not text"),
    ('{"counter":""}', "counter: empty"),
    ('{"counter":"likes"}', "counter: has no family; write family:key"),
    ('{"counter":":post"}', "counter: has no family; write family:key"),
    ('{"counter":"a:\\u0000"}', "counter: contains a NUL character"),
    ('{"counter":"a:b","delta":0}', "delta: 0 is not allowed"),
    ('{"counter":"a:b","delta":0.0}', "delta: 0 is not allowed"),
    ('{"counter":"a:b","delta":1.5}', "delta: not a whole number"),
    ('{"counter":"a:b","delta":true}', "delta: not a whole number"),
    ('{"counter":"a:b","delta":"1"}', "delta: not a whole number"),
    ('{"counter":"a:b","delta":1e999}', "delta: not a whole number"),
    ('{"counter":"a:b","delta":1099511627777}', "delta: beyond 2^40"),
    ('{"counter":"a:b","delta":-1099511627777}', "delta: beyond 2^40"),
    ('{"counter":"a:b","at":"yesterday"}', TIME),
    ('{"counter":"a:b","at":"2026-11-16T04:06:36"}', TIME),
    ('{"counter":"a:b","at":1.5}', TIME),
    ('{"counter":"a:b","at":false}', TIME),
    ('{"counter":"a:b","at":-1}', "at: outside the years 1970 to 2106"),
    ('{"counter":"a:b","at":4294967296000}', "at: outside the years 1970 to 2106"),
    ('{"counter":"a:b","at":"2106-02-07T06:28:16Z"}', "at: outside the years 1970 to 2106"),
    ('{"counter":"a:b","member":""}', "member: empty; leave it out instead"),
    ('{"counter":"a:b","id":""}', "id: empty; leave it out instead"),
    ('{"counter":"a:b","id":7}', "id: not text"),
    ('{"counter":"a:b","region":"*"}', "region: '*' means all regions and is only for queries"),
    ('{"delta":0,"counter":""}', "counter: empty; delta: 0 is not allowed"),
    ("[]", "not a JSON object"),
    ("null", "not a JSON object"),
    ("", "empty; give a JSON object"),
    (" \n", "empty; give a JSON object"),
    ("{", "not JSON"),
    ('{"counter":"a:\\ud800"}', "not JSON"),
    ('{"counter":"a:b","x":NaN}', "not JSON"),
    ("{} {}", "more than one JSON value; give one object per record"),
    ("\ufeff{}", "not JSON; it starts with a byte order mark"),
    ('{"x":' + "[" * 201 + "]" * 201 + "}", "nested deeper than 200 levels"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "fields"), ACCEPTED)
def test_an_event_within_the_contract_is_read(text: str, fields: dict[str, object]) -> None:
    expected = Event(counter="likes:post-42").model_dump() | fields
    assert read_event(text.encode()).model_dump() == expected


@pytest.mark.parametrize(("text", "reason"), REFUSED)
def test_anything_else_is_refused_with_a_reason(text: str, reason: str) -> None:
    with pytest.raises(BadInputError) as refused:
        read_event(text.encode())
    assert str(refused.value) == reason


@pytest.mark.parametrize(
    ("field", "prefix", "max_bytes"),
    [("counter", "a:", 256), ("member", "", 256), ("region", "", 32), ("id", "", 128)],
)
@pytest.mark.parametrize("filler", ["x", "é", "😀"])
def test_limits_are_in_bytes_of_utf8(field: str, prefix: str, max_bytes: int, filler: str) -> None:
    wide = filler * ((max_bytes - len(prefix)) // len(filler.encode()))
    at_limit = prefix + "x" * (max_bytes - len((prefix + wide).encode())) + wide
    event = {"counter": "a:b", field: at_limit}
    assert getattr(read_event(json.dumps(event).encode()), field) == at_limit
    event[field] += "x"
    with pytest.raises(BadInputError, match=f"^{field}: longer than {max_bytes} bytes$"):
        read_event(json.dumps(event).encode())


def test_bytes_that_are_not_utf8_are_refused() -> None:
    with pytest.raises(BadInputError, match=r"^not UTF-8 text$"):
        read_event(b'{"counter":"a:b","ignored":"\xff"}')


def test_half_a_surrogate_pair_is_refused_where_python_made_the_event() -> None:
    with pytest.raises(ValidationError, match="half of a surrogate pair"):
        Event(counter="a:\ud800")


def test_the_json_schema_has_every_field_and_asks_for_the_counter_only() -> None:
    schema = event_json_schema()
    assert tuple(schema["properties"]) == FIELDS
    assert schema["required"] == ["counter"]
    assert all(field["description"] for field in schema["properties"].values())
    assert json.loads(json.dumps(schema)) == schema
