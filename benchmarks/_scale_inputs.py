"""The figures that docs/scale.md is computed from, as they stand in their file."""

from __future__ import annotations

import datetime as dt  # noqa: TC003 - msgspec reads the annotations
import tomllib
from pathlib import Path
from typing import Annotated, Literal, get_args

import msgspec

Sending = Literal["json", "frames", "combined"]
SENDINGS: tuple[Sending, ...] = get_args(Sending)

INPUTS = Path(__file__).parents[1] / "docs" / "benchmarks" / "scale_inputs.toml"

_Positive = Annotated[float, msgspec.Meta(gt=0)]
_Text = Annotated[str, msgspec.Meta(min_length=1)]
_MILLION = 1e6


class InputsError(Exception):
    """The file is not there, or a figure is missing or wrong. Its text is one line."""


class Measured(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A figure that `command` printed on a day."""

    value: _Positive
    unit: _Text
    command: _Text
    date: dt.date
    note: str = ""


class Assumed(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A figure that nobody measured; whoever knows better puts in another one."""

    value: _Positive
    unit: _Text
    why: _Text


class MeasuredInputs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """By name; the file says what each is of."""

    client_json: Measured
    client_frames: Measured
    client_combined: Measured
    worker_json: Measured
    worker_frames: Measured
    worker_combined: Measured
    log_bytes_json: Measured
    log_bytes_frames: Measured
    log_bytes_combined: Measured
    records_frames: Measured
    records_combined: Measured
    broker_produce_100: Measured
    broker_produce_1000: Measured
    broker_consume_100: Measured
    broker_consume_1000: Measured
    flush_cells: Measured
    flush_members: Measured
    flush_fixed: Measured
    flush_worker_cells: Measured
    flush_worker_members: Measured
    rollup: Measured
    cell_bytes_1m: Measured
    cell_bytes_1h: Measured
    cell_memory: Measured
    web_reads: Measured
    strict: Measured
    skew: Measured


class AssumedInputs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """By name; the file says why each is what it is."""

    utilisation: Assumed
    counters_per_rate: Assumed
    exponent: Assumed
    regions: Assumed
    flush_interval: Assumed
    rollup_passes: Assumed
    live_slots: Assumed
    log_days: Assumed
    replication: Assumed
    clickhouse_copies: Assumed
    minute_days: Assumed
    hour_days: Assumed
    day_days: Assumed
    reads_per_increment: Assumed
    strict_share: Assumed
    broker_cores: Assumed
    broker_network: Assumed
    broker_replicas: Assumed
    clickhouse_cores: Assumed
    clickhouse_flushes: Assumed
    worker_gib: Assumed
    server_gib: Assumed
    core_price: Assumed
    gib_price: Assumed
    tib_price: Assumed


class Inputs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """All of them."""

    measured: MeasuredInputs
    assumed: AssumedInputs

    def client_cpu_s(self, sending: Sending) -> float:
        """Processor seconds of producers for a million increments."""
        return self._of("client", sending)

    def worker_cpu_s(self, sending: Sending) -> float:
        """Processor seconds of workers for a million increments."""
        return self._of("worker", sending)

    def worker_rate(self, sending: Sending) -> float:
        """Increments a second that one core of a worker bears, when it does nothing else."""
        return _MILLION / self.worker_cpu_s(sending)

    def log_bytes(self, sending: Sending) -> float:
        """Bytes in the log for one increment."""
        return self._of("log_bytes", sending)

    def records(self, sending: Sending) -> float:
        """Records in the log for one increment."""
        return 1.0 if sending == "json" else self._of("records", sending) / _MILLION

    def flush_s(self, sending: Sending) -> float:
        """ClickHouse's processor seconds for a million cells flushed; what is combined has no
        members."""
        return self._by_members("flush", sending)

    def flush_worker_s(self, sending: Sending) -> float:
        """A worker's own processor seconds for a million cells flushed."""
        return self._by_members("flush_worker", sending)

    def _by_members(self, name: str, sending: Sending) -> float:
        kind = "cells" if sending == "combined" else "members"
        found: Measured = getattr(self.measured, f"{name}_{kind}")
        return found.value

    def _of(self, name: str, sending: Sending) -> float:
        found: Measured = getattr(self.measured, f"{name}_{sending}")
        return found.value


def load_inputs(path: Path = INPUTS) -> Inputs:
    """Read the file. Raises InputsError that names what is wrong and where."""
    try:
        return parse_inputs(path.read_text())
    except OSError as error:
        raise InputsError(f"{path} cannot be read: {error.strerror}") from error
    except InputsError as error:
        raise InputsError(f"{path.name}: {error}") from error


def parse_inputs(text: str) -> Inputs:
    """The inputs in a TOML document. Raises InputsError."""
    try:
        return msgspec.convert(tomllib.loads(text), Inputs)
    except (tomllib.TOMLDecodeError, msgspec.ValidationError) as error:
        raise InputsError(str(error)) from error
