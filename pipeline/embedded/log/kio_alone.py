"""kio without Hypothesis, which it imports where it is installed, as for Tally's own tests.

Nothing here makes values up. Importing it takes most of the log's start, and leaves a folder
`.hypothesis` wherever somebody runs `tally up`.
"""

import importlib
import sys

UNWANTED = "hypothesis"


def import_kio() -> None:
    """Import what of kio asks for it, as if it were not installed; later it can be."""
    if UNWANTED in sys.modules:
        return
    sys.modules[UNWANTED] = None  # type: ignore[assignment]  # so Python is told that it is not there
    try:
        importlib.import_module("kio.static.primitive")
    finally:
        del sys.modules[UNWANTED]
