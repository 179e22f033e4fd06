"""`python -m pipeline.reference`: tells which pages are stale; with --write, writes them anew."""

import argparse
import sys
from pathlib import Path

from pipeline.reference.pages import stale


def main() -> int:
    """The exit code is 1 if pages are stale and were not to be written."""
    parser = argparse.ArgumentParser(prog="python -m pipeline.reference", description=__doc__)
    parser.add_argument("--write", action="store_true", help="write the stale pages anew")
    parser.add_argument("--docs", type=Path, default=Path("docs"), help="the folder of the pages")
    asked = parser.parse_args()
    found = stale(asked.docs)
    for path, text in found.items():
        if asked.write:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        sys.stdout.write(f"{'wrote' if asked.write else 'stale'} {path}\n")
    return int(bool(found) and not asked.write)


if __name__ == "__main__":
    sys.exit(main())
