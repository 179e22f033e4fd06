"""Pages that are written from the code say what the code says, and leave nothing out."""

import re
from pathlib import Path
from typing import Any

import pytest

from pipeline.metrics.definitions.all import ALL
from pipeline.reference.commands import walk
from pipeline.reference.ddl import relations
from pipeline.reference.http import openapi
from pipeline.reference.markdown import table
from pipeline.reference.pages import stale
from pipeline.reference.settings import family_rows, variable
from pipeline.reference.site_links import without_outer_links
from schemas.settings import Settings
from tests.unit.docs.pages import ALL_TEXT, DOCS

REFERENCE = {page.stem: page.read_text() for page in (DOCS / "reference").glob("*.md")}
COMMANDS = sorted(walk(), key=lambda found: found[0])


def test_no_written_page_is_stale() -> None:
    found = [str(path.relative_to(DOCS)) for path in stale(DOCS)]
    assert found == [], "run python -m pipeline.reference --write"


def test_a_page_that_was_edited_is_stale(tmp_path: Path) -> None:
    for name in ("metrics.md", "reference/events.md"):
        page = tmp_path / name
        page.parent.mkdir(exist_ok=True)
        page.write_text((DOCS / name).read_text())
    edited = tmp_path / "reference" / "events.md"
    edited.write_text(edited.read_text().replace("required", "optional", 1))
    found = stale(tmp_path)
    assert edited in found
    assert tmp_path / "metrics.md" not in found
    assert found[edited] == (DOCS / "reference" / "events.md").read_text()


@pytest.mark.parametrize(
    ("words", "command"), COMMANDS, ids=[" ".join(words) for words, _ in COMMANDS]
)
def test_every_command_and_option_is_documented(words: tuple[str, ...], command: Any) -> None:
    if "Not available yet" in command.help:
        assert f"`tally {words[0]}`" in REFERENCE["commands"]
        return
    _, found, rest = REFERENCE["commands"].partition(f"### tally {' '.join(words)}\n")
    assert found
    section = re.split(r"^##", rest, maxsplit=1, flags=re.MULTILINE)[0]
    for parameter in command.params:
        assert parameter.help, f"{parameter.name} has no help"
        names = parameter.opts
        if parameter.param_type_name == "argument":
            names = [parameter.metavar or parameter.name.upper()]
        for name in names:
            assert f"`{name}`" in section


@pytest.mark.parametrize("field", sorted(Settings.model_fields))
def test_every_setting_is_documented(field: str) -> None:
    assert f"| `{variable(field)}` |" in REFERENCE["settings"]


def test_every_setting_of_a_family_is_documented_by_hand_and_from_the_code() -> None:
    rules = (DOCS / "rules.md").read_text()
    for name, *_ in family_rows():
        bare = name.strip("`")
        assert f"| {name} |" in REFERENCE["settings"]
        table_name = bare.partition(".")[0]
        assert f"`{bare}`" in rules or f"`{table_name}`" in rules, f"docs/rules.md lacks {bare}"


def test_every_metric_is_documented() -> None:
    page = (DOCS / "metrics.md").read_text()
    assert [one.name for one in ALL if f"| `{one.name}` |" not in page] == []


def test_every_path_of_the_web_api_is_documented() -> None:
    by_hand = (DOCS / "web.md").read_text() + (DOCS / "dashboard.md").read_text()
    for path, methods in openapi()["paths"].items():
        for method in methods:
            assert f"### {method.upper()} {path}\n" in REFERENCE["http"]
        last = path.rpartition("/")[2]
        assert path in by_hand or f"…/{{counter}}/{last}" in by_hand or f"…/{last}" in by_hand, path


def test_every_table_and_column_is_documented_with_a_comment() -> None:
    found = relations()
    assert len(found) > 50
    for one in found:
        assert f"### {one.name}\n" in REFERENCE["tables"]
        assert one.comment, f"{one.name} has no comment in schemas/sql/{one.file}"
        for column in one.columns:
            assert column.comment, f"{one.name}.{column.name} has no comment"


def test_no_page_names_a_metric_that_is_not_exposed() -> None:
    known = {sample for one in ALL for sample in (one.name, *one.sample_names)}
    named = set(
        re.findall(
            r"\btally_(?:worker|pipeline|web|log|clickhouse|reads|strict|leader)_\w+", ALL_TEXT
        )
    )
    assert named - known == set()


def test_a_bar_in_a_cell_does_not_end_it() -> None:
    assert list(table(("a",), [("x|y\nz",)]))[2] == "| x\\|y z |"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("[the race](../../benchmarks/race)", "the race (`benchmarks/race`)"),
        ("[how](../../benchmarks/README.md#growth).", "how (`benchmarks/README.md`)."),
        ("[gone](../../nowhere.py)", "[gone](../../nowhere.py)"),
        ("[rules](../rules.md)", "[rules](../rules.md)"),
        ("[all](race.md)", "[all](race.md)"),
    ],
)
def test_links_out_of_the_site_become_text(text: str, shown: str) -> None:
    there = {"benchmarks/race", "benchmarks/README.md", "docs/rules.md"}
    assert without_outer_links(text, "docs/benchmarks", there.__contains__) == shown
