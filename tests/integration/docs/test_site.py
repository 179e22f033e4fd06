"""The documentation builds as a site without a warning, and needs nothing from elsewhere."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
# What a browser would fetch while a page is shown, unlike what somebody may click on.
FETCHED = re.compile(
    r"""<(?:script|img|iframe|source|video|audio)\b[^>]*\bsrc=["']?(?P<src>[^"'\s>]+)"""
    r"""|<link\b(?=[^>]*\brel=["']?(?:stylesheet|preconnect|icon|preload|modulepreload))"""
    r"""[^>]*\bhref=["']?(?P<href>[^"'\s>]+)"""
)
ELSEWHERE = re.compile(r"(?:[a-z]+:)?//")
BY_STYLE = re.compile(r"""(?:@import|url\()\s*["']?(?:https?:)?//""")


def build(root: Path, site: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(site)],
        cwd=root,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site") / "site"
    done = build(ROOT, folder)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def test_every_page_is_there(site: Path) -> None:
    pages = {page.relative_to(ROOT / "docs") for page in (ROOT / "docs").rglob("*.md")}
    assert [str(page) for page in pages if not (site / page.with_suffix(".html")).exists()] == []


def test_nothing_is_fetched_from_elsewhere(site: Path) -> None:
    seen = 0
    for page in site.rglob("*.html"):
        text = page.read_text()
        for match in FETCHED.finditer(text):
            seen += 1
            address = match["src"] or match["href"]
            assert not ELSEWHERE.match(address), f"{page.name} fetches {address}"
        # The theme would load what draws these from another site.
        assert 'class="mermaid"' not in text
    assert seen > 100
    for style in site.rglob("*.css"):
        assert not BY_STYLE.search(style.read_text()), style


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    """A small repository with the settings of this one."""
    (tmp_path / "pipeline").mkdir()
    shutil.copytree(ROOT / "pipeline" / "reference", tmp_path / "pipeline" / "reference")
    text = (ROOT / "mkdocs.yml").read_text()
    (tmp_path / "mkdocs.yml").write_text(text.partition("\nnav:\n")[0] + "\nnav:\n  - a.md\n")
    images = tmp_path / "docs" / "images"
    images.mkdir(parents=True)
    (images / "icon.svg").write_text("<svg xmlns='http://www.w3.org/2000/svg'/>")
    (tmp_path / "docs" / "a.md").write_text("# A\n\n[code](../mkdocs.yml)\n")
    return tmp_path


def test_the_settings_alone_build(copied: Path) -> None:
    done = build(copied, copied / "site")
    assert done.returncode == 0, done.stderr
    assert "code (<code>mkdocs.yml</code>)" in (copied / "site" / "a.html").read_text()


@pytest.mark.parametrize(
    ("page", "added", "told"),
    [
        ("b.md", "# B\n", "not included in the"),
        ("a.md", "[b](nowhere.md)\n", "nowhere.md"),
        ("a.md", "[b](a.md#nowhere)\n", "#nowhere"),
        ("a.md", "[b](../nowhere.py)\n", "nowhere.py"),
    ],
)
def test_what_leads_astray_fails_and_is_named(
    page: str, added: str, told: str, copied: Path
) -> None:
    with (copied / "docs" / page).open("a") as file:
        file.write(added)
    done = build(copied, copied / "site")
    assert done.returncode == 1
    assert told in done.stderr
