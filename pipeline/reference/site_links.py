"""A hook of mkdocs: links to files of the repository that are not of the site become text.

Pages are read in the repository, too, where such links lead to code and data. What they name must
exist; a link to nothing stays as it is, so that mkdocs warns of it.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

_LINK = re.compile(r"(?<!!)\[(?P<text>[^\]]+)\]\((?P<path>\.\./[^)#\s]+)(?:#[^)\s]*)?\)")


def on_page_markdown(markdown: str, *, page: Any, config: Any, **_: Any) -> str:
    """Called by mkdocs for each page before it is rendered."""
    docs = Path(config["docs_dir"])
    folder = posixpath.join(docs.name, posixpath.dirname(page.file.src_uri))
    return without_outer_links(markdown, folder, lambda path: (docs.parent / path).exists())


def without_outer_links(markdown: str, folder: str, exists: Callable[[str], bool]) -> str:
    """The text of a page in `folder` (from the repository's root) with outer links as text."""

    def replaced(match: re.Match[str]) -> str:
        path = posixpath.normpath(posixpath.join(folder, match["path"]))
        inside = path.startswith("docs/")
        return match[0] if inside or not exists(path) else f"{match['text']} (`{path}`)"

    return _LINK.sub(replaced, markdown)
