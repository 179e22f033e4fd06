from pathlib import Path

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
    meta.change_topic(row.uid, 4, {"retention.ms": "6"})
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
