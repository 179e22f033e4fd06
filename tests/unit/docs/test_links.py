"""Links between pages lead somewhere, also those that the site does not have; so do variables."""

import re
from functools import cache
from pathlib import Path

import pytest

from schemas.settings import Settings
from tests.unit.docs.pages import DOCS, PAGES, ROOT, name_of

_LINK = re.compile(r"\]\((?!https?:|mailto:)([^)#\s]*)(?:#([^)\s]+))?\)")
_HEADING = re.compile(r"^#{1,6} (.+?)\s*$", re.MULTILINE)
_FENCED = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)
_VARIABLE = re.compile(r"\bTALLY_[A-Z0-9_]*[A-Z0-9]\b")
_CODE = ("pipeline", "schemas", "sketches", "tests", "benchmarks", "Makefile", ".ci")


def anchors(page: Path) -> set[str]:
    """As both GitHub and mkdocs name them."""
    found: set[str] = set()
    for heading in _HEADING.findall(_FENCED.sub("", page.read_text())):
        text = re.sub(r"\[([^\]]+)\]\([^)]*\)", r"\1", heading)
        slug = re.sub(r"[^\w\- ]", "", text.lower()).strip().replace(" ", "-")
        while slug in found:
            slug += "-1"
        found |= {slug, re.sub(r"-+", "-", slug)}
    return found


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_lead_to_files_and_headings_that_exist(page: Path) -> None:
    for path, anchor in _LINK.findall(_FENCED.sub("", page.read_text())):
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), f"{name_of(page)} links to {path}, which is not there"
        assert target.is_relative_to(ROOT)
        if anchor and target.suffix == ".md":
            assert anchor in anchors(target), f"{name_of(page)}: {path} has no heading #{anchor}"


@cache
def variables_of_the_code() -> set[str]:
    found = {f"TALLY_{name.upper()}" for name in Settings.model_fields}
    for name in _CODE:
        part = ROOT / name
        files = [part] if part.is_file() else part.rglob("*")
        for file in files:
            if file.suffix in {".py", ""} and file.is_file():
                # Some are no text, such as what fuzzing begins with.
                found |= set(_VARIABLE.findall(file.read_text(errors="replace")))
    return found


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_variable_that_a_page_names_exists(page: Path) -> None:
    unknown = set(_VARIABLE.findall(page.read_text())) - variables_of_the_code()
    assert unknown == set()


def test_a_variable_that_nobody_reads_would_be_noticed() -> None:
    made_up = "TALLY_" + "FLUSH_INTERVAL_MS"
    assert made_up not in variables_of_the_code()
    assert _VARIABLE.findall(f"set `{made_up}`, or TALLY_…_CA") == [made_up]


def test_every_page_is_in_the_navigation() -> None:
    navigation = (ROOT / "mkdocs.yml").read_text().partition("\nnav:\n")[2]
    named = re.findall(r"([\w./-]+\.md)$", navigation, re.MULTILINE)
    pages = {str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md")}
    missing = sorted(pages - set(named))
    assert missing == [], "add these pages to nav in mkdocs.yml, in the section they are of"
    assert sorted(set(named) - pages) == [], "these pages are in nav of mkdocs.yml and not in docs/"
    assert len(named) == len(set(named))


_PATH = re.compile(r"`((?:pipeline|schemas|sketches|tests|benchmarks|ops|docs)/[\w./]*)`")


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_file_of_the_code_that_a_page_names_exists(page: Path) -> None:
    for path in _PATH.findall(page.read_text()):
        assert (ROOT / path).exists(), f"{name_of(page)} names {path}, which is not there"
