"""The pages that people read: docs/, and the Markdown beside the code."""

from pathlib import Path

ROOT = Path(__file__).parents[3]
DOCS = ROOT / "docs"
BESIDE = ("README.md", "CONTRIBUTING.md", "benchmarks/README.md")
PAGES = sorted([*DOCS.rglob("*.md"), *(ROOT / name for name in BESIDE)])


def name_of(page: Path) -> str:
    """As it is called in the output of tests."""
    return str(page.relative_to(ROOT))


ALL_TEXT = "\n".join(page.read_text() for page in sorted(DOCS.rglob("*.md")))
