"""Where this process finds its servers and how often it writes: environment variables `TALLY_*`."""

import re
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field, ValidationError
from pydantic_settings import SettingsConfigDict

from pipeline.errors import OperatorError
from schemas.clickhouse_settings import ClickHouseSettings
from schemas.host_port import split_host_port
from schemas.kafka_settings import KafkaSettings

ENV_PREFIX = "TALLY_"
DEFAULT_CONFIG = Path("tally.toml")

_REPLICA = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


def _host_port(text: str) -> str:
    split_host_port(text)
    return text


def _replica(text: str) -> str:
    if _REPLICA.fullmatch(text) is None:
        raise ValueError(f"expected 1 to 64 letters, digits, '.', '_' or '-', got {text!r}")
    return text


def _trimmed(value: object) -> object:
    return value.strip() if isinstance(value, str) else value


def _default_config() -> Path | None:
    return DEFAULT_CONFIG if DEFAULT_CONFIG.is_file() else None


class Settings(KafkaSettings, ClickHouseSettings):
    """One process's settings; each field is the environment variable `TALLY_` plus its name.

    An empty variable is taken as unset. Variables that are not fields are ignored. Build it with
    `load_settings`, which reports a mistake as an OperatorError.
    """

    model_config = SettingsConfigDict(
        env_prefix=ENV_PREFIX,
        env_ignore_empty=True,
        extra="ignore",
        frozen=True,
        hide_input_in_errors=True,
    )

    web: Annotated[str, BeforeValidator(_trimmed), AfterValidator(_host_port)] = Field(
        default="127.0.0.1:8321", description="Where `tally serve` listens: host:port."
    )
    metrics: Annotated[str, BeforeValidator(_trimmed), AfterValidator(_host_port)] | None = Field(
        default=None, description="Where a worker or the log serves its metrics: host:port."
    )
    cache_age_s: float = Field(
        default=2.0,
        ge=0.1,
        le=3600,
        allow_inf_nan=False,
        description="How old a cached answer of the web API may be, in seconds.",
    )
    replica: Annotated[str, AfterValidator(_replica)] = Field(
        default="main", description="This cluster's name in cells that regions exchange."
    )
    config: Path | None = Field(
        default_factory=_default_config,
        description="The families' file; ./tally.toml if there is one.",
    )
    build: int = Field(
        default=0,
        ge=0,
        lt=2**31,
        description="The build that is counted into; 0: the live one, also when that changes.",
    )
    partitions: int = Field(
        default=8, ge=1, le=4096, description="Partitions of the topics that Tally makes."
    )
    flush_interval_s: float = Field(
        default=0.5,
        ge=0.01,
        le=3600,
        allow_inf_nan=False,
        description="Seconds between flushes of a worker that keeps up with the log.",
    )
    checkpoint_interval_s: float = Field(
        default=5.0,
        ge=0.01,
        le=3600,
        allow_inf_nan=False,
        description="Seconds between checkpoints.",
    )
    unflushed_rows_max: int = Field(
        default=2_000_000,
        ge=1,
        le=10**9,
        description="Increments a worker counts ahead of ClickHouse before it stops reading.",
    )
    heartbeat_interval_s: float = Field(
        default=5.0,
        ge=0.1,
        le=3600,
        allow_inf_nan=False,
        description="Seconds between heartbeats, which move idle partitions' log time.",
    )
    rollup_interval_s: float = Field(
        default=60.0, ge=0.1, le=86_400, allow_inf_nan=False, description="Seconds between rollups."
    )
    trends_interval_s: float = Field(
        default=10.0, ge=0.1, le=86_400, allow_inf_nan=False, description="Seconds between scores."
    )
    verify_interval_s: float = Field(
        default=60.0,
        ge=0.1,
        le=86_400,
        allow_inf_nan=False,
        description="Seconds between comparisons of log and ClickHouse.",
    )
    shard_rate_max: float = Field(
        default=10_000.0,
        ge=1,
        le=1e9,
        allow_inf_nan=False,
        description="Rows a second of one shard of a counter above which it is split.",
    )
    shard_delivery_p99_ms: float = Field(
        default=500.0,
        ge=1,
        le=3_600_000,
        allow_inf_nan=False,
        description="Milliseconds that a partition's deliveries may take before it is relieved.",
    )
    shard_cool_s: float = Field(
        default=60.0,
        ge=0.1,
        le=86_400,
        allow_inf_nan=False,
        description="Seconds that a split counter must be quiet before its shards are halved.",
    )
    strict_wait_s: float = Field(
        default=10.0,
        ge=0.1,
        le=60,
        allow_inf_nan=False,
        description="Seconds that the web API waits for the decision of a strict command.",
    )
    longest_query_s: float = Field(
        default=3600.0,
        ge=0,
        le=86_400,
        allow_inf_nan=False,
        description="How long a query may run: cells are dropped this long after their rollup.",
    )
    tokens: Path | None = Field(
        default=None, description="The token file; unset: nobody is asked for a token of it."
    )
    jwt_key: Path | None = Field(
        default=None,
        description="A file with a secret or a PEM public key: JWTs signed with it are taken.",
    )
    jwt_audience: str | None = Field(
        default=None, description="What JWTs must have as `aud`; unset: they may have none."
    )
    jwt_issuer: str | None = Field(
        default=None, description="What JWTs must have as `iss`; unset: anything."
    )
    rate_max: float = Field(
        default=0.0,
        ge=0,
        le=1e9,
        allow_inf_nan=False,
        description="Requests a second of a token without a rate of its own; 0: any number.",
    )


NO_SECURITY = {
    f"{ENV_PREFIX}{name.upper()}": ""
    for name in Settings.model_fields
    if name.startswith(("kafka_", "clickhouse_"))
}
"""For the environment of a process whose servers are on this machine, and have no TLS and no users:
what this process was told of others is not for them."""


def load_settings(**known: Any) -> Settings:
    """The settings from the environment, but for those that are known from elsewhere.

    Raises OperatorError, one line naming the variable.
    """
    try:
        return Settings(**known)
    except ValidationError as error:
        problems = [
            f"{ENV_PREFIX}{str(problem['loc'][0]).upper()}: {_reason(problem['msg'])}"
            for problem in error.errors()
        ]
    raise OperatorError("; ".join(problems))


def _reason(message: str) -> str:
    text = message.removeprefix("Value error, ")
    return text[:1].lower() + text[1:]
