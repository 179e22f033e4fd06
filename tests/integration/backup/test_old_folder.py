"""A data folder that an earlier Tally left behind is opened by this one, and its counts are equal.

The fixtures are never made anew (tests/kit/data_folder_fixture.py made each of them once).
"""

import json
import lzma
import time
from pathlib import Path

import pytest

from pipeline.backup.restoring import restore
from pipeline.backup.taking import Tell
from tests.integration.backup.site import command, settle
from tests.integration.worker.offsets import dead_letter_places
from tests.kit.format_fixtures import FOLDER
from tests.kit.tally import tally_up

PACKED = sorted(FOLDER.glob("data-folder-*.tar.xz"))
TABLES = [path.name for path in sorted((Path(__file__).parents[3] / "schemas/sql").glob("*.sql"))]
TABLES_THEN = {"data-folder-1": 16}
"""How many files of tables there were when a folder was made."""


@pytest.mark.timeout(900)
@pytest.mark.parametrize("packed", PACKED, ids=lambda path: path.name.split(".")[0])
def test_an_earlier_tallys_data_folder_goes_on_with_equal_counts(
    packed: Path, tmp_path: Path
) -> None:
    expected = json.loads(packed.with_name(packed.name.split(".")[0] + ".json").read_text())
    backup = tmp_path / "backup.tar"
    backup.write_bytes(lzma.decompress(packed.read_bytes()))
    restore(backup, tmp_path / "data", Tell())
    began_ms = int(time.time() * 1000)
    with tally_up(tmp_path) as tally:
        more = [{"counter": "views:new", "member": "eve"}, {"counter": "views:adjusted"}]
        tally.run("produce", "-", stdin="".join(json.dumps(one) + "\n" for one in more))
        settle(tally.kafka)
        rows = tally.rows(
            "SELECT counter, region, toUnixTimestamp(window), toInt64(count) "
            "FROM tally.counts_by_region_1m WHERE counter LIKE 'views:key-%' ORDER BY ALL"
        )
        assert rows == [tuple(row) for row in expected["windows"]]
        totals = dict(tally.rows("SELECT counter, toInt64(net) FROM tally.totals"))
        assert totals.pop("views:new") == 1
        assert totals.pop("tag:") == expected["tags"]
        expected["totals"]["views:adjusted"] += 1
        assert totals == expected["totals"]
        for counter, uniques in sorted(expected["uniques"].items())[:2]:
            found = tally.json("unique", counter, "--since", "2026-01-01")
            assert found["low"] <= uniques <= found["high"], counter
        assert dead_letter_places(tally.kafka) == set(expected["dead_letters"])
        notes = tally.rows("SELECT DISTINCT note FROM tally.rules")
        assert notes, "what is looked at is there"
        assert not [note for (note,) in notes if "/" in note], "no path of whose machine made it"
        strict = tally.rows("SELECT counter, toInt64(value) FROM tally.strict_values FINAL")
        assert dict(strict) == expected["strict"]
        files = tally.rows(
            "SELECT concat(leftPad(toString(number), 4, '0'), '_', name, '.sql'), "
            f"toUnixTimestamp64Milli(applied_at) >= {began_ms} "
            "FROM tally.migrations ORDER BY number"
        )
        assert [file for file, _ in files] == TABLES
        then = TABLES_THEN[packed.name.split(".")[0]]
        assert [file for file, is_new in files if not is_new] == TABLES[:then]
        command(tally, "verify", "--log")


def test_there_is_a_folder_of_the_present_version() -> None:
    from pipeline.local.data_folder import FORMAT

    assert FOLDER / f"data-folder-{FORMAT}.tar.xz" in PACKED
