"""Reading and changing the settings of topics. The broker's own are read-only: its command line."""

from typing import Any

from kio.schema.errors import ErrorCode

from pipeline.embedded.log.broker import NODE_ID, Broker, RefusedError, Topic
from pipeline.embedded.log.handlers.context import Context
from pipeline.embedded.log.handlers.topics import DEFAULT_CONFIG, DYNAMIC_TOPIC_CONFIG
from pipeline.embedded.log.topic_config import DEFINITIONS, ConfigType

TOPIC_RESOURCE = 2
BROKER_RESOURCE = 4
STATIC_BROKER_CONFIG = 4
SET, DELETE, APPEND, SUBTRACT = range(4)


async def describe_configs(context: Context, body: Any) -> dict[str, Any]:
    # Each is answered with all of its settings: what is named again is told once.
    unique = {(one.resource_type, one.resource_name): one for one in body.resources}
    return {"results": [_described(context.broker, resource) for resource in unique.values()]}


def _described(broker: Broker, resource: Any) -> dict[str, Any]:
    names = resource.configuration_keys
    result = {
        "resource_type": resource.resource_type,
        "resource_name": resource.resource_name,
        "error_code": ErrorCode.none,
        "error_message": None,
        "configs": [],
    }
    try:
        if resource.resource_type == BROKER_RESOURCE:
            configs = _broker_configs(broker, resource.resource_name)
        else:
            configs = _topic_configs(_topic(broker, resource))
    except RefusedError as refused:
        return {**result, "error_code": refused.code, "error_message": refused.reason}
    return {**result, "configs": [c for c in configs if names is None or c["name"] in names]}


def _topic(broker: Broker, resource: Any) -> Topic:
    if resource.resource_type != TOPIC_RESOURCE:
        raise RefusedError(ErrorCode.invalid_request, "Only topics and the broker have settings.")
    topic = broker.topics.get(resource.resource_name)
    if topic is None:
        raise RefusedError(ErrorCode.unknown_topic_or_partition, "There is no such topic.")
    return topic


def _topic_configs(topic: Topic) -> list[dict[str, Any]]:
    return [
        {
            "name": name,
            "value": topic.config.value(name),
            "read_only": False,
            "config_source": DYNAMIC_TOPIC_CONFIG if name in topic.settings else DEFAULT_CONFIG,
            "is_sensitive": False,
            "synonyms": [],
            "config_type": int(definition.type),
            "documentation": definition.note or None,
        }
        for name, definition in DEFINITIONS.items()
    ]


def _broker_configs(broker: Broker, name: str) -> list[dict[str, Any]]:
    if name != str(NODE_ID):
        raise RefusedError(ErrorCode.invalid_request, f"The only broker is {NODE_ID}.")
    values = {
        "broker.id": str(NODE_ID),
        "auto.create.topics.enable": "true",
        "num.partitions": "1",
        "log.dirs": str(broker.folder),
        "tally.fsync": str(broker.flusher.mode),
    }
    return [
        {
            "name": key,
            "value": value,
            "read_only": True,
            "config_source": STATIC_BROKER_CONFIG,
            "is_sensitive": False,
            "synonyms": [],
            "config_type": int(ConfigType.STRING),
            "documentation": None,
        }
        for key, value in values.items()
    ]


async def alter_configs(context: Context, body: Any) -> dict[str, Any]:
    """Replaces all settings of a topic; what is not named goes back to its default."""

    def change(_topic: Topic, resource: Any) -> dict[str, str | None]:
        return {config.name: config.value for config in resource.configs}

    return {"responses": [_altered(context.broker, r, change, body) for r in body.resources]}


async def incremental_alter_configs(context: Context, body: Any) -> dict[str, Any]:
    """Changes the settings that are named, one by one."""
    return {"responses": [_altered(context.broker, r, _changed, body) for r in body.resources]}


def _changed(topic: Topic, resource: Any) -> dict[str, str | None]:
    settings: dict[str, str | None] = dict(topic.settings)
    for config in resource.configs:
        if config.config_operation == SET:
            settings[config.name] = config.value
        elif config.config_operation == DELETE:
            if config.name not in DEFINITIONS:
                raise RefusedError(ErrorCode.invalid_config, f"Unknown config: {config.name}")
            settings.pop(config.name, None)
        else:
            settings[config.name] = _list_changed(topic, config)
    return settings


def _list_changed(topic: Topic, config: Any) -> str:
    """A list setting with items added or taken away."""
    definition = DEFINITIONS.get(config.name)
    if definition is None or definition.type is not ConfigType.LIST or config.value is None:
        raise RefusedError(ErrorCode.invalid_config, f"{config.name} is no list of words.")
    items = topic.config.value(config.name).split(",")
    named = config.value.split(",")
    if config.config_operation == APPEND:
        items += [item for item in named if item not in items]
    else:
        items = [item for item in items if item not in named]
    return ",".join(items)


def _altered(broker: Broker, resource: Any, change: Any, body: Any) -> dict[str, Any]:
    result = {
        "resource_type": resource.resource_type,
        "resource_name": resource.resource_name,
        "error_code": ErrorCode.none,
        "error_message": None,
    }
    try:
        topic = _topic(broker, resource)
        settings = change(topic, resource)
        broker.check_settings(settings)
        if not body.validate_only:
            broker.configure_topic(topic, settings)
    except RefusedError as refused:
        return {**result, "error_code": refused.code, "error_message": refused.reason}
    return result
