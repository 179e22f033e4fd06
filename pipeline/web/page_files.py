"""The files of the dashboard, read once: one page, and what it loads, named by its contents."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

FOLDER = Path(__file__).with_name("page")
INDEX = "index.html"
PLACE = "{{files}}"
"""Stands in the page where the folder of its files is to be."""

TYPES = {
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}


@dataclass(frozen=True, slots=True)
class PageFile:
    """What is sent for one name."""

    body: bytes
    media_type: str


@dataclass(frozen=True, slots=True)
class PageFiles:
    """The page, and its files under `version`: what has another content has another address, so
    browsers may keep it for ever, and never mix files of two releases."""

    version: str
    index: bytes
    files: Mapping[str, PageFile]


@cache
def page_files() -> PageFiles:
    """As they are installed. Reads the disk the first time."""
    return read_page(FOLDER)


def read_page(folder: Path) -> PageFiles:
    """The files of a folder. Blocks; raises OSError when the page is not there."""
    files = {
        path.name: PageFile(path.read_bytes(), TYPES[path.suffix])
        for path in sorted(folder.iterdir())
        if path.suffix in TYPES
    }
    digest = hashlib.blake2b(digest_size=8)
    for name, file in files.items():
        digest.update(f"{name} {len(file.body)} ".encode() + file.body)
    version = digest.hexdigest()
    index = (folder / INDEX).read_text(encoding="utf-8").replace(PLACE, f"page/{version}")
    return PageFiles(version, index.encode(), files)
