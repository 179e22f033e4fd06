"""What `tally doctor` asks Kafka and ClickHouse. Blocks; raises TallyError when one is away."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from clickhouse_connect.driver.exceptions import ClickHouseError

from pipeline import dead_letters, topics
from pipeline.clickhouse import NOW_MS, connect
from pipeline.control.apply_rules import RulesInLog
from pipeline.control.log_writer import LogRecord, write_records
from pipeline.control.rules_diff import differences, in_one_line
from pipeline.doctor.findings import (
    Finding,
    clock_of,
    compacted_settings,
    copies,
    free_space,
    kept_settings,
    source_settings,
    strict_copies,
)
from pipeline.doctor.kafka_versions import not_spoken, spoken_versions
from pipeline.doctor.tls import look_at_tls
from pipeline.errors import TallyError, TryAgainError
from pipeline.kafka_clients import tls_context
from pipeline.rules import counting_rules
from pipeline.strict.strict_topics import look_at_safety, partitions_of
from pipeline.tls import client_context
from schemas.families import load_families
from schemas.migrate import pending

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from clickhouse_connect.driver import Client
    from confluent_kafka.admin import AdminClient

    from pipeline.clock import Clock
    from pipeline.control.known_rules import KnownRules
    from schemas.addresses import KafkaAddress, KafkaSecurity
    from schemas.settings import Settings

CLICKHOUSE_MIN = (25, 8)
CLOCK_KEY = b"clock"
_TIMEOUT_S = 10.0


def look_at_kafka(settings: Settings, clock: Clock) -> list[Finding]:
    """TLS, versions, the user, topics and the log's clock."""
    tls = tls_context(settings.kafka.security)
    found = [look_at_tls("Kafka", settings.kafka.first, tls, clock)] if tls else []
    missing = not_spoken(spoken_versions(*settings.kafka.first, tls))
    if missing:
        detail = f"does not take {', '.join(missing)} as Tally's clients send it"
        spoken = Finding("Kafka", "fail", detail, "use Apache Kafka 2.4 or later, or `tally up`")
    else:
        spoken = Finding("Kafka", "ok", f"{settings.kafka} takes what Tally's clients send")
    admin = topics.admin_client(settings.kafka)
    counts = topics.partition_counts(admin)
    found += [spoken, *_user(settings.kafka.security), *_topics(admin, counts)]
    found += _strict_topics(admin, counts)
    return [*found, *_log_clock(settings.kafka, counts, clock)]


def look_at_clickhouse(settings: Settings, clock: Clock) -> list[Finding]:
    """TLS, version, tables, disks and clock."""
    address = settings.clickhouse
    found = []
    if address.uses_tls:
        tls = client_context(address.ca, address.certificate)
        found.append(look_at_tls("ClickHouse", address.host_port, tls, clock))
    with contextlib.closing(connect(address)) as client:
        try:
            return [
                *found,
                _version(client),
                _tables(client),
                *_disks(client),
                _clock(client, clock),
            ]
        except (ClickHouseError, OSError) as error:
            raise TryAgainError(f"ClickHouse did not answer: {error}") from error


def look_at_rules(settings: Settings, clock: Clock) -> list[Finding]:
    """Whether the log, the shards and the file agree."""
    with contextlib.closing(connect(settings.clickhouse)) as client:
        known = RulesInLog(settings, client, clock).known()
    return [_rules_in_log(known), *_rules_in_file(settings, known)]


def _user(security: KafkaSecurity) -> Iterator[Finding]:
    """Whom Kafka has let in by now."""
    if security.uses_sasl:
        yield Finding("user of Kafka", "ok", f"{security.user} logs in by {security.mechanism}")


def _topics(admin: AdminClient, counts: Mapping[str, int]) -> Iterator[Finding]:
    source = counts.get(topics.INCREMENTS)
    if source is None:
        detail = f"{topics.INCREMENTS} does not exist yet"
        yield Finding("topics", "warn", detail, "start a worker: it makes them")
        return
    settings = topics.settings_of(admin, topics.INCREMENTS)
    yield source_settings(topics.INCREMENTS, settings)
    yield _copies(admin, settings)
    if dead_letters.TOPIC in counts:
        yield kept_settings(dead_letters.TOPIC, topics.settings_of(admin, dead_letters.TOPIC))
    builds = topics.builds_with_changelog(counts)
    changelogs = [topics.changelog(build) for build in builds]
    for name in [*changelogs, *(n for n in (topics.SHARD_PLAN,) if n in counts)]:
        yield compacted_settings(name, topics.settings_of(admin, name))
    uneven = [name for name in changelogs if counts[name] != source]
    if uneven:
        detail = f"the source has {source}, but not {', '.join(uneven)}"
        most = max(source, *(counts[name] for name in uneven))
        yield Finding("partitions", "fail", detail, f"run `tally partitions {most}`")
    else:
        yield Finding("partitions", "ok", f"{source} of the source and of each changelog")


def _strict_topics(admin: topics.Admin, counts: Mapping[str, int]) -> Iterator[Finding]:
    if topics.STRICT not in counts or topics.STRICT_CHANGELOG not in counts:
        return
    yield source_settings(topics.STRICT, topics.settings_of(admin, topics.STRICT))
    changelog = topics.settings_of(admin, topics.STRICT_CHANGELOG)
    yield compacted_settings(topics.STRICT_CHANGELOG, changelog)
    yield from map(strict_copies, look_at_safety(admin))
    try:
        partitions_of(counts)
    except TallyError as error:
        yield Finding("partitions of strict counters", "fail", str(error))


def _copies(admin: AdminClient, settings: Mapping[str, str]) -> Finding:
    cluster = admin.list_topics(topics.INCREMENTS, timeout=_TIMEOUT_S)
    parts = cluster.topics[topics.INCREMENTS].partitions.values()
    replicas = min((len(part.replicas) for part in parts), default=0)
    in_sync_min = int(settings.get("min.insync.replicas", "1"))
    return copies(topics.INCREMENTS, len(cluster.brokers), replicas, in_sync_min)


def _log_clock(kafka: KafkaAddress, counts: Mapping[str, int], clock: Clock) -> Iterator[Finding]:
    """By the time the log gives a record: a tombstone, which compaction takes away again."""
    if topics.SHARD_PLAN not in counts:
        return
    asked_ms = clock.now_ms()
    [told_ms] = write_records(kafka, [LogRecord(topics.SHARD_PLAN, 0, None, CLOCK_KEY)], clock)
    answered_ms = clock.now_ms()
    margin_ms = (answered_ms - asked_ms + 1) // 2
    yield clock_of("the log", told_ms - (asked_ms + answered_ms) // 2, margin_ms)


def _version(client: Client) -> Finding:
    version = client.server_version or "unknown"
    known = tuple(int(part) for part in version.split(".")[:2] if part.isdigit())
    if known < CLICKHOUSE_MIN:
        oldest = ".".join(map(str, CLICKHOUSE_MIN))
        to_do = f"update it: Tally is tried with {oldest} and later"
        return Finding("ClickHouse", "warn", version, to_do)
    return Finding("ClickHouse", "ok", version)


def _tables(client: Client) -> Finding:
    try:
        waiting = pending(client)
    except TallyError as error:
        return Finding("tables", "fail", str(error))
    if waiting:
        names = ", ".join(migration.file for migration in waiting)
        return Finding("tables", "warn", f"not applied: {names}", "run `tally migrate`")
    return Finding("tables", "ok", "up to date")


def _disks(client: Client) -> Iterator[Finding]:
    rows = client.query("SELECT name, free_space, total_space FROM system.disks").result_rows
    for name, free_bytes, total_bytes in rows:
        if total_bytes:  # Object stores tell none.
            yield free_space(f"ClickHouse's disk {name}", int(free_bytes), int(total_bytes))


def _clock(client: Client, clock: Clock) -> Finding:
    asked_ms = clock.now_ms()
    [(told_ms,)] = client.query(NOW_MS).result_rows
    answered_ms = clock.now_ms()
    margin_ms = (answered_ms - asked_ms + 1) // 2
    return clock_of("ClickHouse", int(told_ms) - (asked_ms + answered_ms) // 2, margin_ms)


def _rules_in_log(known: KnownRules) -> Finding:
    newest = known.newest
    if newest is None:
        return Finding("rules in the log", "warn", "none yet", "start a worker: it puts them there")
    if not known.is_whole:
        detail = f"version {newest.version} is not in every partition"
        return Finding("rules in the log", "fail", detail, "run `tally rules apply` again")
    behind = sorted(shard for shard, version in known.counted.items() if version < newest.version)
    if behind:
        detail = f"version {newest.version}, but not yet in shards {', '.join(map(str, behind))}"
        return Finding("rules in the log", "warn", detail, "see that a worker counts these shards")
    return Finding("rules in the log", "ok", f"version {newest.version}")


def _rules_in_file(settings: Settings, known: KnownRules) -> Iterator[Finding]:
    if settings.config is None:
        return
    name = f"rules in {settings.config}"
    try:
        wanted = counting_rules(load_families(settings.config))
    except TallyError as error:
        yield Finding(name, "fail", str(error), "correct it; `tally rules check` tells more")
        return
    if known.newest is None or wanted.counts_as(known.newest):
        yield Finding(name, "ok", "no mistake, and the log has nothing else")
        return
    detail = in_one_line(differences(known.newest, wanted))
    to_do = "run `tally rules apply`, or take it back; until then no worker starts with this file"
    yield Finding(name, "fail", f"differs from the log: {detail}", to_do)
