"""One target under atheris, guided by what it reaches. A process of its own: it never returns.

python -m tests.fuzz.guided TARGET [libFuzzer's own options and folders]
"""

from __future__ import annotations

import sys
from pathlib import Path

import atheris

from tests.fuzz.targets import load

_NATIVE = Path(__file__).parents[2] / "pipeline" / "native"
COMPILED = ["pipeline.native", *(f"pipeline.native.{path.stem}" for path in _NATIVE.glob("*.py"))]
"""What Numba compiles must be left as it is."""

OURS = [
    "pipeline",
    "schemas",
    "sketches",
    "h11",
    "http.client",
    "http.server",
    "jwt",
    "prometheus_client.exposition",
    "tarfile",
    "tomllib",
    "uvicorn.protocols",
]
"""With what reads for us. h11 reads beside the web, so that grammar guides where C reads."""


def main() -> None:
    """Only what is imported inside is instrumented, so the target is loaded here."""
    name, *options = sys.argv[1:]
    with atheris.instrument_imports(include=OURS, exclude=COMPILED):
        target = load(name)
    atheris.Setup([sys.argv[0], *options], target.check)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
