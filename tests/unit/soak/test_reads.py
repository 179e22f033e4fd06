"""What a soak reads beside its load."""

from collections import Counter
from urllib.parse import urlsplit

from benchmarks._soak_traffic import LIFE_S
from benchmarks._soak_watch import read_path


def test_most_reads_are_exact_and_every_kind_of_answer_is_asked_for() -> None:
    reads = [read_path(number, 100) for number in range(1000)]
    assert Counter(kind for kind, _ in reads) == {"exact": 600, "other": 400}
    ends = {urlsplit(path).path.rpartition("/")[2].partition("-")[0] for _, path in reads}
    assert ends == {"exact", "uniques", "top", "trending", "likes:key"}


def test_what_is_read_goes_with_the_traffic() -> None:
    now, later = ({read_path(number, at_s)[1] for number in range(6)} for at_s in (15, 15 + LIFE_S))
    assert not now & later
    assert {read_path(number, 0)[1] for number in range(6)} == now
