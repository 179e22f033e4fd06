"""New rules hold from their place in the log on; a replay by them gives history by them."""

from collections import defaultdict

import pytest

from tests.integration.builds.conftest import CONFIG, FAMILY, REPLAY_TIMEOUT_S, Running

pytestmark = pytest.mark.timeout(600)

REGIONS = "SELECT DISTINCT region FROM tally.counts_by_region_1m WHERE family = 'past' AND {when}"
LONG_AGO = "window < now() - INTERVAL 1 DAY"


@pytest.mark.parametrize("running", ["embedded"], indirect=True)
def test_history_by_new_rules_through_a_new_build(running: Running) -> None:
    site = running.site
    site.settle(1)
    rules = site.folder / "tally.toml"
    rules.write_text(f"{CONFIG}regions = false\n")
    site.tally.run("rules", "apply", str(rules))
    running.stream.wait_for_more(50)
    assert {region for (region,) in site.tally.rows(REGIONS.format(when=LONG_AGO))} == {
        "",
        "eu",
        "us",
    }
    with running.replay("--newest-rules", "--swap") as replay:
        assert replay.wait(timeout_s=REPLAY_TIMEOUT_S) == 0, replay.output()
        assert "by the rules that hold now" in replay.output()
    running.stream.finish()
    site.settle(2)
    assert site.tally.rows(REGIONS.format(when="true")) == [("",)]
    expected: dict[tuple[str, int], int] = defaultdict(int)
    for (counter, _, window_s), count in running.stream.truth.windows.items():
        expected[counter, window_s] += count
    found = site.tally.rows(
        "SELECT counter, toUnixTimestamp(window), toInt64(count) FROM tally.counts_1m "
        f"WHERE family = '{FAMILY}'"
    )
    assert {(counter, window_s): count for counter, window_s, count in found} == expected
