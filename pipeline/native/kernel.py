"""How a kernel is compiled: for one signature, without Python's lock, and kept on the disk."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numba
from numba import types

import schemas.events
import schemas.times

if TYPE_CHECKING:
    from collections.abc import Callable

    Kernel = TypeVar("Kernel", bound=Callable[..., Any])

BYTES = types.Array(types.uint8, 1, "C", readonly=True)
"""Bytes that a kernel only reads, such as those of a fetch."""

BYTES_OUT = types.uint8[::1]
INT64 = types.Array(types.int64, 1, "C", readonly=True)
INT64_OUT = types.int64[::1]
INT32 = types.Array(types.int32, 1, "C", readonly=True)
INT32_OUT = types.int32[::1]
UINT64 = types.Array(types.uint64, 1, "C", readonly=True)
UINT64_OUT = types.uint64[::1]
BOOLS_OUT = types.boolean[::1]


def cache_folder() -> Path:
    """Where machine code is kept: a folder of the user's own, for just these sources.

    Numba notices when the file of a kernel has changed, but not when that of one of its parts has,
    or a constant elsewhere. So its folder is named by all that kernels are made of.
    """
    here = Path(__file__).parent
    constants = (Path(str(module.__file__)) for module in (schemas.events, schemas.times))
    made_of = hashlib.sha256()
    for source in (*sorted(here.glob("*.py")), *constants):
        made_of.update(source.read_bytes())
    caches = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(caches) / "tally" / "kernels" / made_of.hexdigest()[:16]


def _keep_machine_code() -> bool:
    """Whether there is a folder for it; else it is made anew by each process."""
    try:
        folder = cache_folder()
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    except (OSError, RuntimeError):  # the latter: there is no home
        return False
    numba.config.CACHE_DIR = str(folder)  # type: ignore[attr-defined]  # it is set by environment
    return os.access(folder, os.W_OK)


_IS_KEPT = _keep_machine_code()

# Kernels allocate nothing. Without the counting of references, which arrays would have with every
# call of a part, the one that reads events takes half of the time.
_OPTIONS: Any = {"nogil": True, "error_model": "numpy", "_nrt": False}


def kernel(signature: Any) -> Callable[[Kernel], Kernel]:
    """Compile a function for one signature when its module is imported, or load it if it was.

    It runs without Python's lock, raises nothing, and looks at no bound: a kernel must know that it
    stays within its arrays.
    """

    options: Any = {"boundscheck": False, **_OPTIONS}
    return cast("Callable[[Kernel], Kernel]", numba.njit(signature, cache=_IS_KEPT, **options))


def within_kernels(function: Kernel) -> Kernel:
    """A part of kernels, compiled into each that calls it."""
    part: Any = numba.njit(forceinline=True, **_OPTIONS)(function)
    return cast("Kernel", part)
