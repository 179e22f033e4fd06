"""Increments into frames, one or more for each partition they go to. Pure.

columns ──▶ combined by cell ──▶ placed on partitions ──▶ sorted by partition ──▶ frames
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.producer.combining import LATENESS_MIN_MS, Cells, combine, moments
from pipeline.sharding import Rows, counter_partitions_of, hashes_of, id_partitions_of
from schemas.events import DELTA_DEFAULT, REGION_DEFAULT
from schemas.frame_columns import starts_and_bytes
from schemas.frames import frame_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from pipeline.planning.plan import Plan
    from pipeline.sharding import Chooser

    Int64Column = NDArray[np.int64]
    Partitions = NDArray[np.integer[Any]]

FRAME_BYTES = 512 * 1024
"""About how large a frame becomes. Kafka refuses messages above a mebibyte by default."""

ROWS_AT_ONCE = 1 << 17
"""How many rows are packed together at most, so that a frame's rows are always few enough."""


class Frame(NamedTuple):
    """A message to be: how many rows it has, and how many increments went into them.

    `is_line` says that it is no frame but one event as JSON.
    """

    partition: int
    value: bytes
    rows: int
    increments: int
    is_line: bool = False


class Packed(NamedTuple):
    """The frames of a batch, and in which of them each of its rows is.

    `load` is how many rows were packed of each counter that follows the plan.
    """

    frames: list[Frame]
    frame_of_row: Int64Column
    load: Load


class Load(NamedTuple):
    """Counters, and how many rows of each were packed: those that go where the plan says."""

    counters: pa.StringArray
    rows: Int64Column


class _Encoded(NamedTuple):
    """A text column as numbers: row i is `texts[codes[i]]`."""

    texts: pa.StringArray
    codes: Int64Column


def pack(columns: pa.Table, plan: Plan, chooser: Chooser, now_ms: int) -> Packed:
    """Pack checked increments (FRAME_SCHEMA, no null but in `member` and `id`).

    Rows with one id, and those of one member, stay in their order. At most ROWS_AT_ONCE rows.
    """
    counter, region = _encoded(columns["counter"]), _encoded(columns["region"])
    at_ms, delta = columns["at"].to_numpy(), columns["delta"].to_numpy()
    member, id_ = columns["member"].combine_chunks(), columns["id"].combine_chunks()
    plain = _nulls(member) & _nulls(id_)
    when = moments(at_ms, now_ms, _soon_late(counter, plan))
    source, delta, at_ms, row_of = combine(
        Cells(counter.codes, region.codes, when), delta, at_ms, plain
    )
    partition, load = _placed(counter, source, columns, plan, chooser)

    order = np.argsort(partition, kind="stable")
    source, delta, at_ms = source[order], delta[order], at_ms[order]
    rows = _Columns(
        counter._replace(codes=counter.codes[source]),
        delta,
        at_ms,
        member.take(pa.array(source)) if member.null_count < len(member) else None,
        region._replace(codes=region.codes[source]),
        id_.take(pa.array(source)) if id_.null_count < len(id_) else None,
    )
    increments = np.bincount(row_of, minlength=len(source))[order]
    frames: list[Frame] = []
    frame_of = np.empty(len(source), np.int64)
    for start, end in _runs(partition[order]):
        place = int(partition[order[start]])
        for first, last, value in rows.frames(start, end):
            frame_of[first:last] = len(frames)
            frames.append(Frame(place, value, last - first, int(increments[first:last].sum())))
    place_of = np.empty(len(order), np.int64)
    place_of[order] = np.arange(len(order))
    return Packed(frames, frame_of[place_of[row_of]], load)


def placed(columns: pa.Table, plan: Plan, chooser: Chooser) -> tuple[Partitions, Load]:
    """Where each row goes if it is sent as it is, and the load of those that follow the plan."""
    rows = np.arange(columns.num_rows)
    return _placed(_encoded(columns["counter"]), rows, columns, plan, chooser)


def _placed(
    counter: _Encoded, source: Int64Column, columns: pa.Table, plan: Plan, chooser: Chooser
) -> tuple[Partitions, Load]:
    """The partition of each packed row, and the load of those that follow the plan."""
    hashes, shards = hashes_of(counter.texts), _shards(counter.texts, plan)
    codes = counter.codes[source]
    by_member = _by_member(counter, columns["member"], plan)[source]
    by_id = ~_nulls(columns["id"])[source] & ~by_member
    routed = by_id | by_member
    partition = hashes[codes] % plan.partitions
    split = np.flatnonzero((shards[codes] > 1) & ~routed)
    if len(split):
        rows = Rows(
            hashes[codes[split]],
            shards[codes[split]],
            columns["member"].combine_chunks().take(pa.array(source[split])),
            columns["at"].to_numpy()[source[split]],
        )
        chosen = chooser.choose(rows, plan.partitions)
        partition[split] = counter_partitions_of(rows.hashes, chosen, plan.partitions)
    for name, which in (("id", by_id), ("member", by_member)):
        if which.any():
            named = columns.select(["counter", name]).take(pa.array(source[which]))
            counters, texts = (column.combine_chunks() for column in named.columns)
            partition[which] = id_partitions_of(counters, texts, plan.id_partitions)
    load = Load(counter.texts, np.bincount(codes[~routed], minlength=len(hashes)))
    # The narrower they are, the faster they are sorted.
    return partition.astype(np.min_scalar_type(plan.partitions)), load


def _by_member(counter: _Encoded, member: pa.ChunkedArray, plan: Plan) -> NDArray[np.bool_]:
    """Which rows go to where all of their member's rows go."""
    if plan.rules is None or not plan.rules.has_once_per_member:
        return np.zeros(len(counter.codes), np.bool_)
    once = np.array(plan.once_per_member(counter.texts.to_pylist()), np.bool_)
    found: NDArray[np.bool_] = once[counter.codes] & ~_nulls(member)
    return found


def _soon_late(counter: _Encoded, plan: Plan) -> NDArray[np.bool_] | None:
    """Which rows are of families that refuse what is minutes late; None if there are no such."""
    rules = plan.rules
    if rules is None or rules.lateness_ms_min >= LATENESS_MIN_MS:
        return None
    counters = counter.texts.to_pylist()
    is_soon = np.array([rules.of(one).lateness_ms < LATENESS_MIN_MS for one in counters], np.bool_)
    return is_soon[counter.codes]


def _shards(counters: pa.StringArray, plan: Plan) -> Int64Column:
    """How many shards each counter has. Nearly all have one, so few are looked up."""
    if plan.fixes_shards:
        return np.fromiter(map(plan.shards_of, counters.to_pylist()), np.int64, len(counters))
    shards_of = np.array([*plan.split.values(), 1], np.int64)
    named = pa.array(plan.split, pa.string())
    found = pc.fill_null(pc.index_in(counters, named), len(named))
    shards: Int64Column = shards_of[found.to_numpy()]
    return shards


class _Columns(NamedTuple):
    """Packed rows, sorted by partition; a column that is None is all default."""

    counter: _Encoded
    delta: Int64Column
    at_ms: Int64Column
    member: pa.StringArray | None
    region: _Encoded
    id: pa.StringArray | None

    def frames(self, start: int, end: int) -> Iterator[tuple[int, int, bytes]]:
        """Rows from `start` up to `end` as frames of about FRAME_BYTES, and which rows each has."""
        value = frame_bytes(self._record_batch(start, end))
        if len(value) <= FRAME_BYTES or end - start == 1:
            yield start, end, value
            return
        parts = -(-len(value) // FRAME_BYTES)
        for first, last in pairwise(np.linspace(start, end, parts + 1).astype(int).tolist()):
            if last > first:
                yield from self.frames(first, last)

    def _record_batch(self, start: int, end: int) -> pa.RecordBatch:
        """The columns of a frame; those that are all default are left out."""
        arrays = {"counter": _dictionary(self.counter, start, end)}
        delta = self.delta[start:end]
        if (delta != DELTA_DEFAULT).any():
            arrays["delta"] = pa.array(delta)
        arrays["at"] = pa.array(self.at_ms[start:end])
        if self.member is not None:
            arrays["member"] = _compact(self.member, start, end)
        if self.region.texts.to_pylist() != [REGION_DEFAULT]:
            arrays["region"] = _dictionary(self.region, start, end)
        if self.id is not None:
            arrays["id"] = _compact(self.id, start, end)
        return pa.record_batch(arrays)


def _dictionary(column: _Encoded, start: int, end: int) -> pa.DictionaryArray:
    """Rows of an encoded column, with the texts that occur in them alone."""
    codes = column.codes[start:end]
    occurs = np.zeros(len(column.texts), np.bool_)
    occurs[codes] = True
    number = np.cumsum(occurs) - 1
    texts = column.texts.filter(pa.array(occurs))
    return pa.DictionaryArray.from_arrays(pa.array(number[codes].astype(np.int32)), texts)


def _compact(texts: pa.StringArray, start: int, end: int) -> pa.StringArray:
    return pa.concat_arrays([texts.slice(start, end - start)])


def _encoded(column: pa.ChunkedArray) -> _Encoded:
    texts = column.combine_chunks()
    starts, _ = starts_and_bytes(texts)
    if starts[0] == starts[-1] and not texts.null_count:
        # All of them are empty, as regions mostly are.
        return _Encoded(
            pa.array([""] if len(texts) else [], pa.string()), np.zeros(len(texts), np.int64)
        )
    encoded = texts.dictionary_encode()
    return _Encoded(encoded.dictionary, encoded.indices.to_numpy().astype(np.int64))


def _nulls(texts: pa.StringArray | pa.ChunkedArray) -> NDArray[np.bool_]:
    if not texts.null_count:
        return np.zeros(len(texts), np.bool_)
    if texts.null_count == len(texts):
        return np.ones(len(texts), np.bool_)
    nulls: NDArray[np.bool_] = pc.is_null(texts).to_numpy(zero_copy_only=False)
    return nulls


def _runs(partitions: Partitions) -> Iterator[tuple[int, int]]:
    """Where each partition's rows begin and end."""
    if len(partitions):
        cuts = [0, *(np.flatnonzero(np.diff(partitions)) + 1).tolist(), len(partitions)]
        yield from pairwise(cuts)
