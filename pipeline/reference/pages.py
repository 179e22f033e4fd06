"""Which pages are written from the code, and by whom. Pure but for reading docs/metrics.md."""

from collections.abc import Callable
from pathlib import Path

from pipeline.metrics.page import with_tables
from pipeline.reference.commands import commands_page
from pipeline.reference.events import events_page
from pipeline.reference.http import http_page
from pipeline.reference.settings import settings_page
from pipeline.reference.tables import tables_page

WHOLE: dict[str, Callable[[], str]] = {
    "reference/commands.md": commands_page,
    "reference/settings.md": settings_page,
    "reference/events.md": events_page,
    "reference/tables.md": tables_page,
    "reference/http.md": http_page,
}
"""By their path under docs/."""

IN_PART: dict[str, Callable[[str], str]] = {"metrics.md": with_tables}
"""Pages of which a part between marks is written; the rest is people's."""


def wanted(docs: Path) -> dict[Path, str]:
    """Every page's path with the text it should have. Raises OSError if one in part is missing."""
    whole = {docs / name: make() for name, make in WHOLE.items()}
    in_part = {docs / name: make((docs / name).read_text()) for name, make in IN_PART.items()}
    return {**whole, **in_part}


def stale(docs: Path) -> dict[Path, str]:
    """Those pages that are missing or say something else, with the text they should have."""
    return {
        path: text
        for path, text in wanted(docs).items()
        if not path.is_file() or path.read_text() != text
    }
