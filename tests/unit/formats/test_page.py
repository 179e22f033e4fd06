"""docs/formats.md says what the code has: each version, its fixture, and who reads that."""

import re
from pathlib import Path

import pytest

from pipeline import changelog, rules
from pipeline.backup import manifest
from pipeline.embedded.log import meta, sidecar
from pipeline.letters import letter
from pipeline.local import data_folder
from pipeline.produce.progress import Progress
from pipeline.strict import changelog as strict
from schemas.migrate import read_migrations
from sketches.distinct import Distinct
from sketches.frequency import Frequency
from sketches.heavy import Heavy
from sketches.morris import Morris
from tests.unit.formats.stored import FOLDER

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "formats.md"
VERSION_AT_BYTES = 3
"""In the head of a sketch."""

MAGIC_AT_BYTES = 16
"""In a record batch, as Kafka's protocol has it."""


def rows() -> dict[str, list[str]]:
    """The cells of each row of the table, by the first one up to a colon."""
    table = [line for line in PAGE.read_text().splitlines() if line.startswith("| ")]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in table[1:]]
    return {one[0]: one for one in cells}


def version_of(name: str) -> int:
    """What the page says."""
    [row] = [row for first, row in rows().items() if first.startswith(name)]
    found = re.match("[0-9]+", row[2])
    assert found, row
    return int(found[0])


@pytest.mark.parametrize(
    ("name", "version", "fixture"),
    [
        ("data folder", data_folder.FORMAT, "data-folder-{}.tar.xz"),
        ("log: topics", meta.FORMAT, "log-meta-{}.sqlite"),
        ("log: sidecars", sidecar.VERSION, "sidecar-{}.meta"),
        ("changelog", changelog.FORMAT, "changelog-{}.json"),
        ("changelog", changelog.FORMAT, "changelog-{}-filter.json"),
        ("sketches", Distinct(12).to_bytes()[VERSION_AT_BYTES], "sketches-{}.json"),
        ("strict counters", strict.FORMAT, "strict-changelog-{}.json"),
        ("counting rules", rules.FORMAT, "rules-{}.json"),
        ("dead letters", letter.FORMAT, "dead-letter-{}.json"),
        ("resume file", Progress(0, "").version, "produce-progress-{}.json"),
        ("backups", manifest.FORMAT, "data-folder-{}.tar.xz"),
    ],
)
def test_a_version_on_the_page_is_that_of_the_code_and_has_a_fixture(
    name: str, version: int, fixture: str
) -> None:
    assert version_of(name) == version
    assert (FOLDER / fixture.format(version)).exists()


def test_segments_are_of_the_version_on_the_page() -> None:
    version = version_of("log: segments")
    assert (FOLDER / f"segment-{version}.log").read_bytes()[MAGIC_AT_BYTES] == version


def test_all_sketches_are_of_the_version_on_the_page() -> None:
    made = (Distinct(12), Frequency.for_error(0.05), Heavy(10), Morris(0.1, 4))
    versions = {one.to_bytes()[VERSION_AT_BYTES] for one in made}
    assert versions == {version_of("sketches")}


def test_tables_are_at_the_last_file_of_their_folder() -> None:
    numbers = [int(path.name[:4]) for path in sorted((ROOT / "schemas" / "sql").glob("*.sql"))]
    assert numbers == list(range(1, version_of("tables") + 1))
    assert [one.number for one in read_migrations()] == numbers


def test_every_fixture_is_read_by_a_test() -> None:
    folders = (ROOT / "tests" / "unit" / "formats", ROOT / "tests" / "integration" / "backup")
    texts = [path.read_text() for folder in folders for path in folder.glob("test_*.py")]
    here = Path(__file__).read_text()
    for path in FOLDER.iterdir():
        name = path.name if not path.name.startswith("data-folder-") else "data-folder-*.tar.xz"
        assert any(f'"{name}"' in text for text in texts if text != here), path.name


def test_every_row_that_names_no_version_says_why() -> None:
    without = [row[0] for row in rows().values() if row[2].startswith("none")]
    assert without == [
        "shard plan",
        "producers' load",
        "handovers",
        "heartbeats, requests to flush",
        "trends",
    ]
    assert all(re.match("none: .{10}", rows()[name][2]) for name in without)


def test_every_test_that_the_page_names_is_there() -> None:
    for row in rows().values():
        for name in re.findall(r"`([a-z_/]*test_[a-z_]+\.py)`", row[6]):
            places = [ROOT / name] if "/" in name else list(ROOT.glob(f"tests/**/{name}"))
            assert any(path.exists() for path in places), name
