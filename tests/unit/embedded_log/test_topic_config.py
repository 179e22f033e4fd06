import pytest

from pipeline.embedded.log.topic_config import DEFINITIONS, TopicConfig, check
from pipeline.errors import BadInputError


def test_every_default_is_a_valid_value() -> None:
    check({name: definition.default for name, definition in DEFINITIONS.items()})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("no.such.thing", "1"),
        ("retention.ms", "-2"),
        ("retention.ms", "soon"),
        ("retention.ms", None),
        ("cleanup.policy", ""),
        ("cleanup.policy", "compact,shred"),
        ("message.timestamp.type", "Now"),
        ("min.cleanable.dirty.ratio", "1.5"),
        ("min.insync.replicas", "2"),
        ("segment.bytes", "0"),
    ],
)
def test_what_cannot_be_is_refused(name: str, value: str | None) -> None:
    with pytest.raises(BadInputError, match=name):
        check({name: value})


def test_settings_override_defaults() -> None:
    config = TopicConfig({"cleanup.policy": "compact, delete", "segment.bytes": "999"})
    assert config.is_compacted
    assert config.is_deleted
    assert config.segment_bytes == 999
    assert not config.is_log_append_time
    assert not TopicConfig().is_compacted
