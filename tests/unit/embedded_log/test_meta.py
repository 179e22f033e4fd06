import sqlite3
from pathlib import Path

import pytest

from pipeline.embedded.log.meta import PRODUCER_ID_BLOCK, CommittedOffset, Meta


def open_meta(folder: Path) -> Meta:
    return Meta(folder / "meta.sqlite", sync_each_commit=False)


def test_a_producer_id_is_never_given_twice(tmp_path: Path) -> None:
    given = []
    for _ in range(3):
        meta = open_meta(tmp_path)
        given += [meta.next_producer_id() for _ in range(PRODUCER_ID_BLOCK + 1)]
        meta.close()
    assert len(set(given)) == len(given)


def test_topics_survive_with_their_settings(tmp_path: Path) -> None:
    meta = open_meta(tmp_path)
    row = meta.add_topic("t", 3, {"retention.ms": "5"})
    with meta.growing_topic(row.uid, 4):
        pass
    meta.configure_topic(row.uid, {"retention.ms": "6"})
    meta.set_start(row.uid, 2, 77)
    meta.close()
    again = open_meta(tmp_path)
    assert again.topics() == [(row.uid, "t", 4, {"retention.ms": "6"})]
    assert again.starts(row.uid) == {2: 77}
    again.close()


def test_a_topic_made_again_is_another_one(tmp_path: Path) -> None:
    meta = open_meta(tmp_path)
    first = meta.add_topic("t", 1, {})
    meta.commit_offsets("g", [CommittedOffset("t", 0, 5, 0, "note")])
    meta.remove_topic(first.uid, "t")
    assert meta.add_topic("t", 1, {}).uid != first.uid
    assert meta.offsets("g") == {}
    meta.close()


def test_the_last_committed_offset_is_kept(tmp_path: Path) -> None:
    meta = open_meta(tmp_path)
    for offset in (5, 9, 7):
        meta.commit_offsets("g", [CommittedOffset("t", 0, offset, -1, None)])
    meta.close()
    again = open_meta(tmp_path)
    assert again.offsets("g") == {("t", 0): CommittedOffset("t", 0, 7, -1, None)}
    assert again.groups_with_offsets() == {"g"}
    again.remove_group("g")
    assert again.offsets("g") == {}
    again.close()


class Statements:
    """What a Meta asks of SQLite from here on."""

    def __init__(self, meta: Meta) -> None:
        self.seen: list[str] = []
        meta._db.set_trace_callback(self.seen.append)

    def were_synced(self) -> bool:
        """Whether the last transaction was on the disk when it returned."""
        before = self.seen[: len(self.seen) - self.seen[::-1].index("BEGIN IMMEDIATE")]
        settings = [one for one in before if one.startswith("PRAGMA synchronous")]
        return settings[-1:] == ["PRAGMA synchronous=FULL"]


def test_producer_ids_are_on_the_disk_before_one_is_given(tmp_path: Path) -> None:
    meta = open_meta(tmp_path)
    statements = Statements(meta)
    meta.next_producer_id()
    assert statements.were_synced()
    meta.close()


def test_ids_that_could_not_be_reserved_are_not_given(tmp_path: Path) -> None:
    meta = open_meta(tmp_path)
    meta.next_producer_id()
    meta._producer_id = meta._producer_id_end
    meta._db.execute("PRAGMA query_only=1")
    for _ in range(2):
        with pytest.raises(sqlite3.Error):
            meta.next_producer_id()
    meta.close()


def test_only_ids_above_those_met_in_the_log_are_given(tmp_path: Path) -> None:
    meta = open_meta(tmp_path)
    meta.pass_producer_ids([7, 5000, 2**63 - 1])
    assert meta.next_producer_id() == 5001
    meta.close()
    again = open_meta(tmp_path)
    again.pass_producer_ids([5000])
    assert again.next_producer_id() == 5001 + PRODUCER_ID_BLOCK
    again.close()


def test_a_grown_topic_is_on_the_disk(tmp_path: Path) -> None:
    meta = open_meta(tmp_path)
    row = meta.add_topic("t", 1, {})
    statements = Statements(meta)
    with meta.growing_topic(row.uid, 2):
        pass
    assert statements.were_synced()
    meta.configure_topic(row.uid, {})
    assert not statements.were_synced()
    meta.close()


def test_a_transaction_that_sqlite_ended_by_itself_tells_why(tmp_path: Path) -> None:
    meta = open_meta(tmp_path)
    pages = meta._db.execute("PRAGMA page_count").fetchone()[0]
    meta._db.execute(f"PRAGMA max_page_count={pages}")
    for _ in range(2):
        with pytest.raises(sqlite3.OperationalError, match="full"):
            meta.save_group("g", bytes(100_000))
    meta._db.execute("PRAGMA max_page_count=10000")
    meta.save_group("g", b"1")
    assert meta.groups() == {"g": b"1"}
    meta.close()


def test_opening_what_is_up_to_date_writes_nothing(tmp_path: Path) -> None:
    open_meta(tmp_path).close()
    before = (tmp_path / "meta.sqlite").read_bytes()
    open_meta(tmp_path).close()
    assert (tmp_path / "meta.sqlite").read_bytes() == before
