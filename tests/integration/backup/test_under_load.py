"""A backup that is taken while events arrive is brought back, and every number equals the truth."""

import json
import random
from pathlib import Path

import pytest

from tests.integration.backup.site import command, ends_in, running, settle
from tests.integration.backup.stream import PlacedStream
from tests.integration.complete.comparison import SKETCHED, compare
from tests.integration.worker.offsets import log_ends

BEFORE, AFTER = 150, 60


@pytest.mark.timeout(1200)
def test_what_was_copied_under_load_goes_on_exactly_where_it_was(tmp_path: Path) -> None:
    seed = random.SystemRandom().randrange(1 << 32)
    print(f"seed {seed}")
    file = tmp_path / "backup.tar"
    with (
        running(tmp_path / "first") as tally,
        PlacedStream(tally.kafka, "all", seed) as stream,
        PlacedStream(tally.kafka, SKETCHED, seed + 1) as sketched,
    ):
        stream.wait_for_more(BEFORE, timeout_s=300)
        acknowledged = [*stream.acknowledged(), *sketched.acknowledged()]
        data = str(tmp_path / "first" / "data")
        taken = json.loads(command(tally, "backup", str(file), "--data", data, "--json"))
        stream.wait_for_more(AFTER, timeout_s=300)
        stream.finish()
        sketched.finish()
        settle(tally.kafka)
        # Nothing that runs was harmed: the original is right, too.
        ends = log_ends(tally.kafka)
        compare(tally, [stream.until(ends), sketched.until(ends)])
    assert taken["running"]
    assert taken["bytes"] == file.stat().st_size

    tally.run("restore", str(file), "--data", str(tmp_path / "second" / "data"))
    ends = ends_in(tmp_path / "second" / "data")
    with running(tmp_path / "second") as restored:
        cuts = [stream.until(ends), sketched.until(ends)]
        assert len(acknowledged) >= BEFORE // 2
        assert all(offset < ends[partition] for partition, offset in acknowledged)
        assert sum(cut.messages for cut in cuts) < stream.sent + sketched.sent, "no load was on"
        settle(restored.kafka)
        compare(restored, cuts)
        restored.run("verify", "--log")

        with PlacedStream(restored.kafka, "all", seed + 2) as later:
            later.wait_for_more(AFTER, timeout_s=300)
            later.finish()
        settle(restored.kafka)
        ends = log_ends(restored.kafka)
        compare(restored, [*cuts, later.until(ends)])
        restored.run("verify", "--log")
        command(restored, "replay", "--check")
