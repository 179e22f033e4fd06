"""Filters of members are recovered as of the position, whatever was written and torn before."""

from unittest.mock import patch

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline import changelog
from pipeline.changelog import filter_records
from pipeline.once import filters
from pipeline.once.facts import halves, pair_keys
from pipeline.once.filters import FilterName, FilterPart, MemberFilter, recovered_filter
from sketches import bloom
from sketches.bloom import GrowingFilter

NAME = FilterName("views", -5, 0.1)


def parts_of(records: dict[bytes, bytes]) -> list[FilterPart]:
    found = []
    for key, value in sorted(records.items()):
        _, _, _, *name, writer, number, part, parts = msgspec.msgpack.decode(key)
        found.append(FilterPart(FilterName(*name), writer, number, part, parts, key, value))
    return found


@settings(max_examples=200, deadline=None)
@given(
    numbers=st.lists(st.integers(0, 100), max_size=150),
    lengths=st.lists(st.integers(1, 20), min_size=1),
    fates=st.lists(st.integers(0, 4), min_size=1),
)
def test_whoever_goes_on_has_the_filter_as_it_was(
    numbers: list[int], lengths: list[int], fates: list[int]
) -> None:
    """A fate: committed; the same and taken over; or torn after so many records and taken over."""
    keys = pair_keys([f"views:{number}" for number in numbers], ["ann"] * len(numbers))
    with (
        patch.object(bloom, "FIRST_CAPACITY", 8),
        patch.object(filters, "WHOLE_BYTES_MIN", 100),
        patch.object(changelog, "FACTS_AT_ONCE", 4),
        patch.object(changelog, "_PART_BYTES", 5),
    ):
        truth = GrowingFilter(NAME.error)
        expected = [bool(truth.add(*halves([key]))[0]) for key in keys]
        members, records = MemberFilter(NAME, GrowingFilter(NAME.error)), dict[bytes, bytes]()
        found: list[bool] = []
        writer = turn = position = filled = 0
        while position < len(keys):
            end = position + lengths[turn % len(lengths)]
            fate = fates[turn % len(fates)] if turn < 60 else 0
            turn += 1
            added = members.add(keys[position:end])
            snapshot = members.snapshot()
            written = filter_records(snapshot, 0, writer)
            if fate >= 2:
                records.update(dict(written[: fate - 2]))
            else:
                records.update(dict(written))
                for key in members.confirm(snapshot, list(dict(written))):
                    del records[key]
                found += map(bool, added)
                position, filled = end, snapshot.filled
            if fate:
                writer += 1
                taken_over = recovered_filter(NAME, filled, parts_of(records))
                assert taken_over is not None
                members = taken_over
        assert found == expected
        assert members.filter.to_bytes() == truth.to_bytes()


def test_a_filter_of_which_a_part_is_missing_is_not_taken_for_whole() -> None:
    made = MemberFilter(NAME, GrowingFilter(NAME.error))
    made.add(pair_keys(["views:a"] * 9, "abcdefghi"))
    with patch.object(changelog, "FACTS_AT_ONCE", 3):
        records = filter_records(made.snapshot(), 0, 1)
    assert recovered_filter(NAME, 9, parts_of(dict(records))) is not None
    for missing in range(3):
        left = dict(records[:missing] + records[missing + 1 :])
        assert recovered_filter(NAME, 9, parts_of(left)) is None
    assert recovered_filter(NAME, 6, parts_of(dict(records[:2]))) is not None
