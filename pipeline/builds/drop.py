"""Forgets a build: its rows, its offsets, its changelog."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING

from clickhouse_connect.driver.exceptions import ClickHouseError
from confluent_kafka import KafkaError, KafkaException

from pipeline import topics
from pipeline.builds.live import FOREIGN, live_build
from pipeline.builds.members import MEMBER_S, hosts_of_members
from pipeline.builds.partitions import partitions, tables_beside
from pipeline.builds.positions import reached
from pipeline.builds.rebuilds import Rebuild, State, read_rebuilds, write_rebuild
from pipeline.errors import OperatorError, TryAgainError
from pipeline.reads.reads import Reads

if TYPE_CHECKING:
    from collections.abc import Callable

    from clickhouse_connect.driver import Client

    from pipeline.clock import Clock
    from schemas.addresses import KafkaAddress

_TIMEOUT_S = 30.0
_LOOK_S = 0.5

_KEPT = {"builds", "rebuilds"}
"""Which builds there were stays known."""


def drop(
    kafka: KafkaAddress, client: Client, build: int, clock: Clock, tell: Callable[[str], object]
) -> None:
    """Forget a build; `tell` hears what is dropped. Blocks; raises TryAgainError.

    Raises OperatorError for the live one, and when somebody goes on counting it. The rest of one
    that was half dropped goes as well.
    """
    if build >= FOREIGN:
        raise OperatorError(
            f"build {build} holds another cluster's cells: `tally exchange --forget` is for those"
        )
    if build == live_build(client):
        raise OperatorError(f"build {build} is live: `tally replay --swap` takes another first")
    _wait_for_nobody(kafka, build, clock)
    rebuilds = read_rebuilds(client)
    waiting = [one.build for one in rebuilds.values() if one.base == build and one.lacks_base]
    if waiting:
        raise OperatorError(
            f"build {waiting[0]} needs earlier days of build {build}: finish it with `tally replay`"
            ", or drop it first"
        )
    reads = Reads(client, clock)
    if build not in rebuilds and not reached(client, build) and not _has_rows(reads, build):
        raise OperatorError(f"there is no build {build}; `tally builds` lists them")
    # From here on it is not taken up again, and nobody gets its number.
    write_rebuild(client, replace(rebuilds.get(build, Rebuild(build)), state=State.DROPPED), clock)
    tell("offsets and changelog")
    _drop_from_kafka(kafka, build)
    for one in partitions(reads):
        if one.build == build:
            tell(one.table)
            _command(
                client, f"ALTER TABLE tally.{one.table} DROP PARTITION ID '{one.partition_id}'"
            )
    for table in tables_beside(reads):
        if table not in _KEPT:
            tell(table)
            _command(client, f"DELETE FROM tally.{table} WHERE build = {build}")  # noqa: S608 - a table's name and a number


def _wait_for_nobody(kafka: KafkaAddress, build: int, clock: Clock) -> None:
    """Until nobody counts a build: workers that ended without a word are members for a while."""
    deadline_s = clock.monotonic_s() + MEMBER_S
    while hosts := hosts_of_members(kafka, build):
        if clock.monotonic_s() > deadline_s:
            raise OperatorError(
                f"workers count build {build} (on {', '.join(sorted(set(hosts)))}): stop them first"
            )
        time.sleep(_LOOK_S)


def _has_rows(reads: Reads, build: int) -> bool:
    return any(one.build == build for one in partitions(reads))


def _drop_from_kafka(kafka: KafkaAddress, build: int) -> None:
    admin = topics.admin_client(kafka)
    group, changelog = topics.group_id(build), topics.changelog(build)
    gone = {KafkaError.GROUP_ID_NOT_FOUND, KafkaError.UNKNOWN_TOPIC_OR_PART}
    for futures, name in (
        (admin.delete_consumer_groups([group]), group),
        (admin.delete_topics([changelog], operation_timeout=_TIMEOUT_S), changelog),
    ):
        try:
            futures[name].result(timeout=_TIMEOUT_S)
        except TimeoutError:
            raise TryAgainError(f"Kafka at {kafka} did not delete {name} in time") from None
        except KafkaException as error:
            if error.args[0].code() not in gone:
                raise TryAgainError(f"Kafka did not delete {name}: {error}") from error


def _command(client: Client, statement: str) -> None:
    try:
        client.command(statement)
    except (ClickHouseError, OSError) as error:
        raise TryAgainError(f"ClickHouse did not drop it: {error}") from error
