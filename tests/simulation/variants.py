"""Deliberately broken variants: each takes one safeguard away, and the simulation must notice.

The number in a name is that of the sentence in docs/exactness.md.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from unittest.mock import patch

from msgspec import msgpack

from pipeline import changelog, checkpoint, placing, recovery, shard, takeover
from pipeline.cells import SlotCells, SlotSnapshot
from pipeline.checkpoint import Checkpointer, OwnedShard
from pipeline.distinct import ShardDistinct
from pipeline.first_rules import OFFSETS_MAX, _Ahead
from pipeline.ids import Occurrence, SeenIds
from pipeline.ledger import Ledger
from pipeline.once import filters, members
from pipeline.once.filters import MemberFilter
from pipeline.once.members import Members
from pipeline.recovery import RecoveredShard
from pipeline.refused import RefusedPlaces
from pipeline.shard import Fetched, Shard
from pipeline.sketched import SlotSketches
from sketches.bloom import GrowingFilter
from tests.simulation.schedule import Schedule, played
from tests.simulation.worker import SimWorker
from tests.simulation.world import Doors, Operation

Variant = Callable[[], Any]
"""Makes a context in which schedules run broken."""


real_records = changelog.checkpoint_records
real_slot_of = placing.slot_of


def cells_and_rest(snapshot: Any, generation: int, *rest: Any) -> tuple[list[Any], list[Any]]:
    """What a checkpoint writes: the cells, which come first, and all else, the position last."""
    found = list(real_records(snapshot, generation, *rest))
    over = real_slot_of(snapshot.log_ms)
    cells = sum(len(part.rows) for part in snapshot.checkpoint if part.cells.slot_ms >= over)
    return found[:cells], found[cells:]


def cells_written_last(snapshot: Any, generation: int, *rest: Any) -> Iterator[Any]:
    """The same, but cells after all else but the position."""
    cells, others = cells_and_rest(snapshot, generation, *rest)
    return iter([*others[:-1], *cells, others[-1]])


@contextmanager
def no_guard() -> Iterator[None]:
    """Rows are counted into a cell that has them already."""
    real = SlotCells.add

    def add(self: SlotCells, key: str, delta: int, offset: int, change: int) -> bool:
        row = self._index.get(key)
        if row is not None:
            self._through[row] = -1
        return real(self, key, delta, offset, change)

    with patch.object(SlotCells, "add", add):
        yield


@contextmanager
def no_generation_in_the_key() -> Iterator[None]:
    """A zombie's write replaces the owner's."""
    real_cells, real_position = changelog.cell_keys, changelog.position_key

    def cells(slot: SlotCells, keys: Any, incarnation: int, _generation: int) -> Iterator[bytes]:
        return real_cells(slot, keys, incarnation, 0)

    def position(offset: int, _generation: int) -> bytes:
        return real_position(offset, 0)

    with (
        patch.object(changelog, "cell_keys", cells),
        patch.object(checkpoint, "cell_keys", cells),
        patch.object(changelog, "position_key", position),
        patch.object(checkpoint, "position_key", position),
    ):
        yield


@contextmanager
def one_dirty_set() -> Iterator[None]:
    """What ClickHouse has confirmed is taken out of the changelog's dirty set, too."""

    def confirm(self: SlotSnapshot) -> None:
        for column in self.cells.confirmed.values():
            column[self.rows] = self.changes

    with patch.object(SlotSnapshot, "confirm", confirm):
        yield


@contextmanager
def slots_by_the_wall_clock() -> Iterator[None]:
    """A re-read row falls into another slot."""
    real = placing.slot_of
    worlds: list[Any] = []
    init = SimWorker.__init__

    def remember(self: SimWorker, number: int, world: Any, batch_records: int) -> None:
        worlds[:] = [world]
        init(self, number, world, batch_records)

    with (
        patch.object(SimWorker, "__init__", remember),
        patch.object(shard, "slot_of", lambda _log_ms: real(worlds[0].now_ms)),
    ):
        yield


@contextmanager
def commit_before_confirm() -> Iterator[None]:
    """The position is committed before its cells are in the changelog."""

    async def checkpoint_first(self: Checkpointer) -> None:
        generation, moments = self.generation, self._snapshot(checkpoint=True)
        positions = {m.owned.shard.partition: m.snapshot.position for m in moments}
        if not await self._commit(positions, generation):
            return
        await self._flush(moments)
        for moment in moments:
            records = changelog.checkpoint_records(moment.snapshot, generation)
            await self._changelog.append(moment.owned.shard.partition, records)
            await self._let_go([moment])

    with patch.object(Checkpointer, "checkpoint", checkpoint_first):
        yield


@contextmanager
def the_position_without_its_cells() -> Iterator[None]:
    """All batches are sent at once, and Kafka has the last ones though it gave up the first."""
    real = Schedule.stored

    def stored(
        self: Schedule, operation: Operation[Any], count: int
    ) -> Sequence[Callable[[], Any]]:
        if operation.name != "append" or not count:
            return real(self, operation, count)
        return operation.atoms[-count:]

    with patch.object(Schedule, "stored", stored):
        yield


@contextmanager
def changelog_before_clickhouse() -> Iterator[None]:
    """Cells are checkpointed, and their slots closed, before ClickHouse has them."""
    real = Checkpointer._flush

    async def later(self: Checkpointer, moments: list[Any]) -> None:
        for moment in moments:
            moment.snapshot.confirm("flush")

    async def checkpoint_then_flush(self: Checkpointer) -> None:
        generation, moments = self.generation, self._snapshot(checkpoint=True)
        for moment in moments:
            records = changelog.checkpoint_records(moment.snapshot, generation)
            await self._changelog.append(moment.owned.shard.partition, records)
        positions = {m.owned.shard.partition: m.snapshot.position for m in moments}
        if not await self._commit(positions, generation):
            return
        await later(self, moments)
        for moment in moments:
            await self._let_go([moment])
        await real(self, moments)

    with patch.object(Checkpointer, "checkpoint", checkpoint_then_flush):
        yield


@contextmanager
def sentence_1_log_time_from_any_position() -> Iterator[None]:
    """Log time is the latest that was stored, not that of the offset at which counting goes on."""
    real_position, real_resume = RecoveredShard.position, RecoveredShard.resume

    def position(self: RecoveredShard, committed: int | None) -> int | None:
        offsets = {offset for offset, _, _ in self._parsed().positions}
        return committed if committed in offsets else real_position(self, committed)

    def resume(self: RecoveredShard, at: int) -> Shard:
        made = real_resume(self, at)
        made.log_ms = max(value.log_ms for _, _, value in self._parsed().positions)
        return made

    with (
        patch.object(RecoveredShard, "position", position),
        patch.object(RecoveredShard, "resume", resume),
    ):
        yield


@contextmanager
def sentence_2_memory_is_kept() -> Iterator[None]:
    """A partition that stays with its owner keeps its shard over a rebalance."""
    real_own = Checkpointer.own
    real_disown = Checkpointer.disown
    kept: dict[int, dict[int, Any]] = {}

    def own(self: Checkpointer, shards: Any, generation: int) -> None:
        before = kept.get(id(self), {})
        real_own(self, shards, generation)
        for partition, owned in before.items():
            if partition in self.owned:
                self.owned[partition].shard = owned.shard

    def disown(self: Checkpointer) -> None:
        if self.owned:
            kept[id(self)] = dict(self.owned)
        real_disown(self)

    with patch.object(Checkpointer, "own", own), patch.object(Checkpointer, "disown", disown):
        yield


@contextmanager
def sentence_3_tombstones_before_the_rewrite() -> Iterator[None]:
    """A new owner forgets older generations before it has written its own."""
    real = takeover.take_over

    async def take_over(recovered: Any, generation: int, made: Checkpointer, **rest: Any) -> bool:
        done = await real(recovered, generation, made, **rest)
        for partition, owned in list(made.owned.items()):
            await made._changelog.append(partition, changelog.tombstones(owned.unneeded))
        return done

    with patch.object(takeover, "take_over", take_over):
        yield


@contextmanager
def sentence_4_reading_to_the_first_highwater() -> Iterator[None]:
    """The changelog is read to where it ended when the rebalance was announced."""

    async def read_on(_self: Doors, _recovered: RecoveredShard) -> bool:
        return False

    def highwater(self: SimWorker, partition: int) -> int:
        return self.ends_at_notice.get(partition, 0)

    with patch.object(Doors, "read_on", read_on), patch.object(SimWorker, "highwater", highwater):
        yield


@contextmanager
def sentence_5_tombstones_before_the_position() -> Iterator[None]:
    """Closed slots, ids and old positions are forgotten before the position that allows it."""
    real = Checkpointer._let_go

    async def early(self: Checkpointer) -> None:
        generation, moments = self.generation, self._snapshot(checkpoint=True)
        await self._flush(moments)
        moved = [m for m in moments if m.snapshot.position > m.owned.committed]
        for moment in moved:
            records = list(changelog.checkpoint_records(moment.snapshot, generation))
            await real(self, [moment])
            await self._changelog.append(moment.owned.shard.partition, records)
        positions = {m.owned.shard.partition: m.snapshot.position for m in moved}
        if positions:
            await self._commit(positions, generation)

    with patch.object(Checkpointer, "checkpoint", early):
        yield


@contextmanager
def sentence_6_confirmed_though_changed_since() -> Iterator[None]:
    """A cell leaves the dirty set even if it changed while it was being written."""

    def confirm(self: SlotSnapshot) -> None:
        self.cells.confirmed[self.purpose][self.rows] = self.cells._changed[self.rows]

    with patch.object(SlotSnapshot, "confirm", confirm):
        yield


@contextmanager
def sentence_7_from_the_start_without_an_offset() -> Iterator[None]:
    """A build whose offset was lost counts from the log's start."""

    real = RecoveredShard.position

    def position(self: RecoveredShard, committed: int | None) -> int | None:
        return None if committed is None else real(self, committed)

    with (
        patch.object(RecoveredShard, "position", position),
        patch.object(RecoveredShard, "is_new", lambda _self: True),
    ):
        yield


@contextmanager
def resuming_at_the_committed_offset_alone() -> Iterator[None]:
    """A committed offset that went back finds its position forgotten."""
    real = RecoveredShard.resume

    def position(_self: RecoveredShard, committed: int | None) -> int | None:
        return committed

    def resume(self: RecoveredShard, at: int) -> Shard:
        if not any(offset == at for offset, _, _ in self._parsed().positions):
            self.refuse(at)
        return real(self, at)

    with (
        patch.object(RecoveredShard, "position", position),
        patch.object(RecoveredShard, "resume", resume),
    ):
        yield


def _zombies_go_on(self: Schedule) -> None:
    """Whoever does not know yet that it was replaced counts and checkpoints."""
    for worker in self.workers:
        if worker.alive and worker.idle and (worker.stopped or not worker.noticed):
            for partition in worker.checkpointer.owned:
                worker.fetch(partition, 3)
            worker.start(worker.checkpointer.checkpoint())
            self.finish(worker)


@contextmanager
def resuming_at_the_greatest_position_of_any_generation() -> Iterator[None]:
    """A zombie's position goes before the owner's if it is further on.

    Few zombies write between their successor's recovery and its first commit. So here they do it
    when else time would pass, and slots stay open.
    """

    def position(self: RecoveredShard, committed: int | None) -> int | None:
        known = [
            (value.incarnation, offset)
            for offset, _, value in self._parsed().positions
            if committed is None or offset >= committed
        ]
        return max(known)[1] if known else None

    with (
        patch.object(RecoveredShard, "position", position),
        patch.object(Schedule, "pass_time", _zombies_go_on),
        patch.object(Schedule, "trim_log", _zombies_go_on),
        patch.object(Schedule, "compact", _zombies_go_on),
        patch.object(Schedule, "lose_offset", _zombies_go_on),
    ):
        yield


@contextmanager
def sentence_8_ids_without_their_place() -> Iterator[None]:
    """An id's record is keyed by the id alone."""

    def keys(occurrences: Any, incarnation: int) -> Iterator[bytes]:
        return (changelog._encode((1, "id", incarnation, 0, 0, one.id_key)) for one in occurrences)

    real = recovery._occurrences

    def occurrences(ids: Any, position: Any, committed: int) -> list[Occurrence]:
        position.ids_from = (0, 0)
        return real(ids, position, committed)

    with (
        patch.object(changelog, "id_keys", keys),
        patch.object(recovery, "_occurrences", occurrences),
    ):
        yield


@contextmanager
def sentence_8_ids_past_the_committed_offset() -> Iterator[None]:
    """Recovery believes ids that an owner ahead of the committed offset wrote.

    Cells are written before ids, which hides it; so here they are written after.
    """
    real = recovery._occurrences

    def occurrences(ids: Any, position: Any, _committed: int) -> list[Occurrence]:
        if ids and position.ids_from is None:
            position.ids_from = (0, 0)
        return real(ids, position, 1 << 60)

    with (
        patch.object(recovery, "_occurrences", occurrences),
        patch.object(checkpoint, "checkpoint_records", cells_written_last),
    ):
        yield


@contextmanager
def sentence_5_forgetting_what_an_owner_ahead_wrote() -> Iterator[None]:
    """What is past the position is let go of, though this owner has written it again."""
    real = RecoveredShard.unneeded

    def unneeded(self: RecoveredShard, writer: int, position: int) -> list[bytes]:
        found = self._parsed()
        ids = [one[-1] for one in found.ids if one[1] >= position]
        refused = [key for _, fact, key in found.refused if fact.offset >= position]
        return [*real(self, writer, position), *ids, *refused]

    with patch.object(RecoveredShard, "unneeded", unneeded):
        yield


@contextmanager
def sentence_8_horizon_not_applied_again() -> Iterator[None]:
    """Recovery remembers ids that were forgotten at the committed offset."""
    real = recovery._occurrences

    def occurrences(ids: Any, position: Any, committed: int) -> list[Occurrence]:
        position.ids_from = (0, 0)
        return real(ids, position, committed)

    def claim(self: SeenIds, occurrence: Occurrence, *_: Any) -> bool:
        earlier = self._last.get(occurrence.id_key)
        self._occurrences.append(occurrence)
        self._last[occurrence.id_key] = occurrence
        self._unsaved += 1
        return earlier is None

    with (
        patch.object(recovery, "_occurrences", occurrences),
        patch.object(SeenIds, "claim", claim),
    ):
        yield


@contextmanager
def sentence_9_duplicates_do_not_prolong() -> Iterator[None]:
    """Only counted occurrences are remembered."""
    real = SeenIds.claim

    def claim(self: SeenIds, occurrence: Occurrence, horizon_ms: int, *rest: Any) -> bool:
        earlier = self._last.get(occurrence.id_key)
        if earlier is not None and earlier.log_ms >= occurrence.log_ms - horizon_ms:
            return False
        return real(self, occurrence, horizon_ms, *rest)

    with patch.object(SeenIds, "claim", claim):
        yield


@contextmanager
def sentence_9_refused_rows_claim() -> Iterator[None]:
    """A row that is too late still claims its id."""
    real = Shard._absorb_row

    def absorb(self: Shard, row: Any, retried: Any, counted: Any) -> str | None:
        reason = real(self, row, retried, counted)
        if reason is not None and row.id is not None:
            self.is_first(row.counter, row.id, (row.offset, row.row), self.log_ms)
        return reason

    with patch.object(Shard, "_absorb_row", absorb):
        yield


@contextmanager
def rules_by_order_instead_of_version() -> Iterator[None]:
    """Where two appliers race, the last one wins instead of the greater version."""

    def apply(self: Shard, rules: Any, _offset: int) -> None:
        self.rules = rules

    with patch.object(Shard, "apply", apply):
        yield


@contextmanager
def rules_at_the_end_of_a_fetch() -> Iterator[None]:
    """Rules hold from the next fetch on instead of from their offset."""
    real = Shard.absorb_rows

    def absorb(self: Shard, rows: Any, fetched: Fetched) -> Any:
        misplaced = real(self, rows, replace(fetched, rules=()))
        for offset, later in fetched.rules:
            self.apply(later, offset)
        return misplaced

    with patch.object(Shard, "absorb_rows", absorb):
        yield


@contextmanager
def beginning_by_the_rules_that_are_there_already() -> Iterator[None]:
    """Whoever begins a partition takes the defaults if its rules have not arrived yet."""

    async def rules_at_start(
        partition: int, start: int, _known: Any, *, log: Any, control: Any
    ) -> Any:
        found = _Ahead(start + OFFSETS_MAX)
        while not found.is_over:
            fetch = await log.read_ahead(partition, start)
            if fetch is None:
                break
            found.add(fetch)
            start = fetch.next_offset
        return found.rules

    with patch.object(takeover, "rules_at_start", rules_at_start):
        yield


@contextmanager
def caps_by_what_is_in_memory() -> Iterator[None]:
    """Recovered cells count as open at once, though the position has not come to them.

    Cells are written in the order in which they opened, which hides it; so here it is reversed.
    """
    real = SlotCells.restore

    def records(snapshot: Any, generation: int, *rest: Any) -> Iterator[Any]:
        cells, others = cells_and_rest(snapshot, generation, *rest)
        return iter([*reversed(cells), *others])

    def restore(self: SlotCells, values: Any, change: int, position: int, rules: Any) -> None:
        real(self, values, change, sys.maxsize, rules)

    with (
        patch.object(SlotCells, "restore", restore),
        patch.object(checkpoint, "checkpoint_records", records),
    ):
        yield


@contextmanager
def caps_as_they_were_when_cells_opened() -> Iterator[None]:
    """Changed rules leave the counts of open cells as they are."""

    def apply(self: Shard, rules: Any, _offset: int) -> None:
        if rules.version > self.rules.version:
            self.rules = rules

    with patch.object(Shard, "apply", apply):
        yield


@contextmanager
def refused_places_past_the_position() -> Iterator[None]:
    """Recovery knows of refusals that have not happened yet at its position.

    Cells are written before what was refused, which hides it; so here they are written after.
    """

    def facts_at(facts: Any, first: Any, position: int) -> Any:
        return list(facts)

    with (
        patch.object(recovery, "facts_at", facts_at),
        patch.object(checkpoint, "checkpoint_records", cells_written_last),
    ):
        yield


@contextmanager
def refused_places_in_memory_alone() -> Iterator[None]:
    """What was refused and retried is forgotten with the worker."""
    with patch.object(recovery, "facts_at", lambda *_: []):
        yield


@contextmanager
def retried_as_often_as_it_comes() -> Iterator[None]:
    """A dead letter counts with each of its retries."""

    def retry(self: RefusedPlaces, place: Any, at_offset: int) -> bool:
        return place in self._retried_at

    with patch.object(RefusedPlaces, "retry", retry):
        yield


@contextmanager
def sketches_without_their_own_guard() -> Iterator[None]:
    """Spilled rows are added to a sketch that has them already."""
    real = SlotSketches._add

    def add(self: SlotSketches, of: Any, rows: Any, family: Any, change: int) -> None:
        if of in self._open and self._open[of].changed != change:
            self._open[of].sketch.through = -1
        real(self, of, rows, family, change)

    with patch.object(SlotSketches, "_add", add):
        yield


@contextmanager
def sketches_in_memory_alone() -> Iterator[None]:
    """A new owner begins with empty sketches."""
    with patch.object(Shard, "restore_sketch", lambda *_: None):
        yield


@contextmanager
def sketches_replaced_before_they_are_whole() -> Iterator[None]:
    """A sketch's key is the same in every checkpoint, and its parts are torn apart."""
    real = changelog.sketch_records

    def records(part: Any, incarnation: int, writer: int) -> Iterator[Any]:
        for place, found in real(part, incarnation, writer):
            key, (first, value) = (msgpack.decode(one or b"") for one in found[0])
            head, last = key[:7], key[-1]
            half = len(value) // 2
            pieces = enumerate((value[:half], value[half:]))
            yield (
                place,
                [
                    (msgpack.encode((*head, 0, n, 2, last)), msgpack.encode((first, piece)))
                    for n, piece in pieces
                ],
            )

    with patch.object(checkpoint, "sketch_records", records):
        yield


@contextmanager
def sketches_forgotten_when_written_twice() -> Iterator[None]:
    """What a failed checkpoint wrote is forgotten, though the next one wrote the same."""
    real = OwnedShard.sketch_records

    def records(self: OwnedShard, snapshot: Any) -> Iterator[Any]:
        before = {place: set(known.newest) for place, known in self.sketch_keys.items()}
        yield from real(self, snapshot)
        for place, keys in before.items():
            self.sketch_keys[place].older |= keys

    with patch.object(OwnedShard, "sketch_records", records):
        yield


@contextmanager
def registers_taken_for_stored_too_soon() -> Iterator[None]:
    """What a failed write held is not written again."""
    real = ShardDistinct.snapshot

    def snapshot(self: ShardDistinct) -> Any:
        taken = real(self)
        taken.confirm()
        return taken

    with patch.object(ShardDistinct, "snapshot", snapshot):
        yield


@contextmanager
def ledger_in_memory_alone() -> Iterator[None]:
    """A new owner begins the ledger of the open slot anew."""
    real = RecoveredShard.resume

    def resume(self: RecoveredShard, at: int) -> Shard:
        made = real(self, at)
        made.ledger = Ledger()
        return made

    with patch.object(RecoveredShard, "resume", resume):
        yield


@contextmanager
def ledger_taken_for_stored_too_soon() -> Iterator[None]:
    """What a failed write held of the ledger is not written again."""
    real = Ledger.unconfirmed

    def unconfirmed(self: Ledger, since_ms: int) -> Any:
        taken = real(self, since_ms)
        self.confirm(taken)
        return taken

    with patch.object(Ledger, "unconfirmed", unconfirmed):
        yield


@contextmanager
def members_past_the_position() -> Iterator[None]:
    """Recovery believes facts about members that an owner ahead of the position wrote.

    Cells are written before members, which hides it; so here they are written after.
    """
    real = members.recovered

    def recovered(parts: Any, position: int, *rest: Any) -> Members:
        parts = list(parts)
        found = real(parts, position, *rest)
        found._table = real(parts, 1 << 60, *rest)._table
        return found

    with (
        patch.object(members, "recovered", recovered),
        patch.object(checkpoint, "checkpoint_records", cells_written_last),
    ):
        yield


@contextmanager
def members_in_memory_alone() -> Iterator[None]:
    """A new owner knows nobody."""

    def recovered(_parts: Any, _position: int, since: Any, filters: Any) -> Members:
        return Members(since=since, filters=filters)

    with patch.object(members, "recovered", recovered):
        yield


@contextmanager
def members_without_their_writer() -> Iterator[None]:
    """A zombie's segment replaces the owner's of the same number."""
    real = changelog.member_records

    def records(snapshot: Any, incarnation: int, _writer: int, segment: int) -> Any:
        return real(snapshot, incarnation, 0, segment)

    with patch.object(checkpoint, "member_records", records):
        yield


@contextmanager
def members_let_go_before_the_commit() -> Iterator[None]:
    """A segment that was taken in is forgotten before the one that holds its facts is whole."""
    real = OwnedShard.member_records

    def records(self: OwnedShard, snapshot: Any) -> Any:
        known = self.shard.members._segments.known
        taken_in = [key for one in known if one.first >= snapshot.members.first for key in one.keys]
        return [*changelog.tombstones(taken_in), *real(self, snapshot)]

    with patch.object(OwnedShard, "member_records", records):
        yield


@contextmanager
def members_who_are_out_are_forgotten() -> Iterator[None]:
    """Once it is committed that a member was taken back, no fact about it is kept."""
    real = Members.snapshot

    def snapshot(self: Members, position: int) -> Any:
        found = real(self, position)
        old = found.facts["at"] < 2 * self._segments.saved
        return replace(found, facts=found.facts[~old | (found.facts["at"] % 2 == 1)])

    with patch.object(Members, "snapshot", snapshot):
        yield


@contextmanager
def members_from_before_the_rules() -> Iterator[None]:
    """Who was in when a family stopped counting once per member is in when it begins again."""
    with patch.object(Members, "change", lambda *_: None):
        yield


@contextmanager
def filters_in_memory_alone() -> Iterator[None]:
    """A new owner's filters are empty."""

    def recovered(name: Any, _filled: int, _parts: Any) -> MemberFilter:
        return MemberFilter(name, GrowingFilter(name.error))

    with patch.object(recovery, "recovered_filter", recovered):
        yield


@contextmanager
def filters_past_the_position() -> Iterator[None]:
    """Recovery adds what an owner ahead of the position had added.

    Cells are written before filters, which hides it; so here they are written after.
    """
    real = filters.recovered_filter

    def recovered(name: Any, filled: int, parts: Any) -> Any:
        parts = list(parts)
        found = real(name, filled, parts)
        numbers = range(filled + 1, filled + 9)
        ahead = [one for one in (real(name, more, parts) for more in numbers) if one is not None]
        if ahead and found is not None:
            found.filter = ahead[-1].filter
        return found

    with (
        patch.object(recovery, "recovered_filter", recovered),
        patch.object(checkpoint, "checkpoint_records", cells_written_last),
    ):
        yield


VARIANTS: list[Variant] = [
    no_guard,
    no_generation_in_the_key,
    one_dirty_set,
    slots_by_the_wall_clock,
    commit_before_confirm,
    the_position_without_its_cells,
    changelog_before_clickhouse,
    sentence_1_log_time_from_any_position,
    sentence_2_memory_is_kept,
    sentence_3_tombstones_before_the_rewrite,
    sentence_4_reading_to_the_first_highwater,
    sentence_5_tombstones_before_the_position,
    sentence_5_forgetting_what_an_owner_ahead_wrote,
    sentence_6_confirmed_though_changed_since,
    sentence_7_from_the_start_without_an_offset,
    resuming_at_the_committed_offset_alone,
    resuming_at_the_greatest_position_of_any_generation,
    sentence_8_ids_without_their_place,
    sentence_8_ids_past_the_committed_offset,
    sentence_8_horizon_not_applied_again,
    sentence_9_duplicates_do_not_prolong,
    sentence_9_refused_rows_claim,
    rules_by_order_instead_of_version,
    rules_at_the_end_of_a_fetch,
    beginning_by_the_rules_that_are_there_already,
    caps_by_what_is_in_memory,
    caps_as_they_were_when_cells_opened,
    refused_places_past_the_position,
    refused_places_in_memory_alone,
    retried_as_often_as_it_comes,
    sketches_without_their_own_guard,
    sketches_in_memory_alone,
    sketches_replaced_before_they_are_whole,
    sketches_forgotten_when_written_twice,
    registers_taken_for_stored_too_soon,
    ledger_in_memory_alone,
    ledger_taken_for_stored_too_soon,
    members_past_the_position,
    members_in_memory_alone,
    members_without_their_writer,
    members_let_go_before_the_commit,
    members_who_are_out_are_forgotten,
    members_from_before_the_rules,
    filters_in_memory_alone,
    filters_past_the_position,
]


RARELY_CAUGHT = {
    sentence_5_forgetting_what_an_owner_ahead_wrote: 5_607,
    caps_by_what_is_in_memory: 331,
    refused_places_past_the_position: 15_756,
    sketches_without_their_own_guard: 237,
    sketches_in_memory_alone: 77,
    sketches_replaced_before_they_are_whole: 7_173,
    sketches_forgotten_when_written_twice: 101_141,
    registers_taken_for_stored_too_soon: 101,
    resuming_at_the_greatest_position_of_any_generation: 976,
    sentence_7_from_the_start_without_an_offset: 408,
    members_who_are_out_are_forgotten: 11_690,
}
"""Seeds that notice variants which few schedules do. A change of the schedules makes others of
them, to be found with `python -m tests.simulation --variants`."""


def first_caught(variant: Variant, schedules: int) -> Schedule | None:
    """The first schedule that notices the variant, if any of so many does."""
    known = [RARELY_CAUGHT[variant]] if variant in RARELY_CAUGHT else []
    with variant():
        found = (one for one in played([*known, *range(schedules)]) if one.problem is not None)
        return next(found, None)
