"""The settings of a topic that this log knows, by their Kafka names, with checks and defaults."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum

from pipeline.errors import BadInputError

MAX_I64 = 2**63 - 1


class ConfigType(IntEnum):
    """Numbers of the protocol (DescribeConfigs)."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    LONG = 5
    DOUBLE = 6
    LIST = 7


def _number(low: int, high: int) -> Callable[[str], bool]:
    def check(text: str) -> bool:
        try:
            return low <= int(text) <= high
        except ValueError:
            return False

    return check


def _ratio(text: str) -> bool:
    try:
        return 0 <= float(text) <= 1
    except ValueError:
        return False


def _one_of(*words: str) -> Callable[[str], bool]:
    return lambda text: text in words


def _policies(text: str) -> bool:
    return bool(text) and all(part.strip() in {"delete", "compact"} for part in text.split(","))


@dataclass(frozen=True, slots=True)
class Definition:
    """One setting. `note` says where the single node makes a Kafka setting trivial."""

    default: str
    type: ConfigType
    is_valid: Callable[[str], bool]
    note: str = ""


_LONG = ConfigType.LONG
_INT = ConfigType.INT

DEFINITIONS: dict[str, Definition] = {
    "cleanup.policy": Definition("delete", ConfigType.LIST, _policies),
    "compression.type": Definition(
        "producer", ConfigType.STRING, _one_of("producer"), "batches are stored as they came"
    ),
    "delete.retention.ms": Definition("86400000", _LONG, _number(0, MAX_I64)),
    "file.delete.delay.ms": Definition("0", _LONG, _number(0, MAX_I64), "files go at once"),
    "flush.messages": Definition(
        str(MAX_I64), _LONG, _number(1, MAX_I64), "1: as --fsync always, for this topic alone"
    ),
    "flush.ms": Definition(str(MAX_I64), _LONG, _number(0, MAX_I64), "see --fsync"),
    "index.interval.bytes": Definition("32768", _INT, _number(0, 2**31 - 1), "fixed"),
    "max.compaction.lag.ms": Definition(str(MAX_I64), _LONG, _number(1, MAX_I64)),
    "max.message.bytes": Definition("1048588", _INT, _number(0, 2**31 - 1)),
    "message.timestamp.type": Definition(
        "CreateTime", ConfigType.STRING, _one_of("CreateTime", "LogAppendTime")
    ),
    "min.cleanable.dirty.ratio": Definition("0.5", ConfigType.DOUBLE, _ratio),
    "min.compaction.lag.ms": Definition("0", _LONG, _number(0, MAX_I64)),
    "min.insync.replicas": Definition("1", _INT, _number(1, 1), "there is one replica"),
    "preallocate": Definition("false", ConfigType.BOOLEAN, _one_of("false")),
    "retention.bytes": Definition("-1", _LONG, _number(-1, MAX_I64)),
    "retention.ms": Definition("604800000", _LONG, _number(-1, MAX_I64)),
    "segment.bytes": Definition("268435456", _INT, _number(14, 2**31 - 1)),
    "segment.jitter.ms": Definition("0", _LONG, _number(0, MAX_I64), "not applied"),
    "segment.ms": Definition("604800000", _LONG, _number(1, MAX_I64)),
    "unclean.leader.election.enable": Definition(
        "false", ConfigType.BOOLEAN, _one_of("true", "false"), "there is one leader"
    ),
}


def check(settings: Mapping[str, str | None]) -> None:
    """Raises BadInputError for a setting we do not know or a value it cannot have."""
    for name, value in settings.items():
        definition = DEFINITIONS.get(name)
        if definition is None:
            raise BadInputError(f"Unknown topic config name: {name}")
        if value is None or not definition.is_valid(value):
            raise BadInputError(f"Invalid value {value} for configuration {name}")


@dataclass(frozen=True, slots=True)
class TopicConfig:
    """A topic's settings: what was set, over the defaults. `settings` were checked."""

    settings: Mapping[str, str] = field(default_factory=dict)
    is_compacted: bool = field(init=False)
    is_deleted: bool = field(init=False)
    is_log_append_time: bool = field(init=False)
    is_synced: bool = field(init=False)
    max_message_bytes: int = field(init=False)
    segment_bytes: int = field(init=False)
    segment_ms: int = field(init=False)

    def __post_init__(self) -> None:
        # Frozen, but the values that each batch asks for are worked out once.
        policies = {part.strip() for part in self.value("cleanup.policy").split(",")}
        derived = {
            "is_compacted": "compact" in policies,
            "is_deleted": "delete" in policies,
            "is_log_append_time": self.value("message.timestamp.type") == "LogAppendTime",
            "is_synced": self.number("flush.messages") == 1,
            "max_message_bytes": self.number("max.message.bytes"),
            "segment_bytes": self.number("segment.bytes"),
            "segment_ms": self.number("segment.ms"),
        }
        for name, value in derived.items():
            object.__setattr__(self, name, value)

    def value(self, name: str) -> str:
        return self.settings.get(name, DEFINITIONS[name].default)

    def number(self, name: str) -> int:
        return int(self.value(name))

    @property
    def dirty_ratio(self) -> float:
        return float(self.value("min.cleanable.dirty.ratio"))
