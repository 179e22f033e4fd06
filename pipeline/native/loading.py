"""Loads the kernels beside whatever else a process does, once it has use for them.

Importing a compiler takes a third of a second, and making machine code of all kernels some seconds
when it was never done on this machine. Most processes count little, so none pays for that until it
meets a large fetch. Until then, and where kernels cannot be loaded, other code does the same.
"""

from __future__ import annotations

import importlib
import logging
import threading

log = logging.getLogger(__name__)

MODULES = ("events", "hashing", "records", "registers", "texts")


class Kernels:
    """Whether the kernels can be called. Safe to ask from any thread."""

    def __init__(self) -> None:
        self.are_loaded = False
        self._thread = threading.Thread(target=self._try, name="kernels", daemon=True)
        self._begun = threading.Lock()

    def load(self) -> None:
        """Load them now, or fail with ImportError. Takes seconds where they were never compiled."""
        try:
            for name in MODULES:
                importlib.import_module(f"pipeline.native.{name}")
        except Exception as error:
            # A compiler can fail in ways of its own; nothing but speed depends on it.
            raise ImportError(f"the kernels cannot be compiled: {error}") from error
        self.are_loaded = True

    def load_soon(self) -> None:
        """Begin to load them in a thread of its own; does nothing from the second call on."""
        if self._begun.acquire(blocking=False):
            self._thread.start()

    def wait(self, timeout_s: float) -> None:
        """Wait until what was begun has ended, one way or the other."""
        self._thread.join(timeout_s)

    def _try(self) -> None:
        try:
            self.load()
        except ImportError as error:
            log.warning("%s: counting goes on without them, at less than half the speed", error)


kernels = Kernels()
"""Those of this process: a module is loaded once."""
