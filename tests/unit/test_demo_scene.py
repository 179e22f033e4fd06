"""The demo's picture tells a newcomer what happens, where, and what to try."""

from io import StringIO

from rich.console import Console

from pipeline.local.demo_reads import Seen, Trend
from pipeline.local.demo_scene import Scene

AT = 1_760_054_460_000
PLACES = {
    "TALLY_KAFKA": "127.0.0.1:19092",
    "TALLY_CLICKHOUSE": "http://127.0.0.1:18123",
    "TALLY_WEB": "127.0.0.1:8321",
}
SEEN = Seen(
    flushed_at_ms=AT - 1_500,
    top={"hashtag": [("hashtag:#cats", 12_345), ("hashtag:#dogs", 2)], "likes": [("likes:p", 7)]},
    regions=[("eu", 3), ("us", 1)],
    trends=[Trend("hashtag:#breaking7", 900, 12.0, "rising")],
)
NOTHING = Seen(None, {}, [], [])


def shown(seen: Seen, width: int = 80, **places: str) -> str:
    out = StringIO()
    scene = Scene(AT, 12_000, 1_988.0, seen, {**PLACES, **places})
    Console(file=out, width=width, soft_wrap=True).print(scene.render())
    return out.getvalue()


def test_it_tells_what_runs_where_counts_regions_trends_and_what_to_try() -> None:
    picture = shown(SEEN)
    for part in (
        "12,000 sent, 1,988 a second",
        "127.0.0.1:19092",
        "1.5 s old",
        "http://127.0.0.1:8321",
        "#cats 12,345",
        "eu 75% · us 25%",
        "#breaking7: 900 where 12 were expected (rising)",
        "tally count likes:p --by 1m --last 10m",
        "Ctrl-C stops everything",
    ):
        assert part in picture


def test_it_fits_a_terminal_of_eighty_columns() -> None:
    assert max(map(len, shown(SEEN).splitlines())) <= 80


def test_counts_of_an_earlier_day_are_not_told_in_seconds() -> None:
    assert "counts 15 min old" in shown(Seen(AT - 876_000, {}, [], []))


def test_before_the_first_counts_it_says_so() -> None:
    picture = shown(NOTHING)
    assert "no counts yet" in picture
    assert "on their way" in picture
    assert "nothing yet" in picture


def test_another_port_is_exported_and_a_token_is_never_shown() -> None:
    assert "export" not in shown(SEEN)
    picture = shown(SEEN, TALLY_CLICKHOUSE="http://tally:tally_s3cret@127.0.0.1:28123")
    assert "export TALLY_CLICKHOUSE=http://default:TOKEN@127.0.0.1:28123" in picture
    assert "s3cret" not in picture
