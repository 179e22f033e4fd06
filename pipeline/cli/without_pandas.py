"""Keeps pandas out of this program.

pyarrow imports pandas, where it is installed, with the first array it makes, to know its objects
when it sees one. chDB brings pandas along, and nothing here has such objects: importing it would
take a quarter of a worker's start, and 30 MB for as long as it runs.
"""

import sys
from importlib.abc import MetaPathFinder

UNWANTED = "pandas"


class _NoPandas(MetaPathFinder):
    def find_spec(self, name: str, _path: object, _target: object = None) -> None:
        if name == UNWANTED:
            raise ModuleNotFoundError("Tally's commands do without pandas", name=name)


def do_without_pandas() -> None:
    """From now on pandas cannot be imported, as if it were not installed.

    For whole processes only: a program that uses Tally as a library may want it.
    """
    sys.meta_path.insert(0, _NoPandas())
