"""When Python's collector looks at what is loaded: hardly while a process loads it, never after.

Modules make hundreds of thousands of objects that stay. Looking at them again and again while they
are made would be a tenth of a worker's start, and of any command.
"""

import gc

LOADING_OBJECTS = 50_000
"""So many new objects are let pass before the collector looks, while a process loads."""

_usual = gc.get_threshold()


def collect_seldom() -> None:
    """From now on the collector looks seldom. For whole processes, as they begin."""
    gc.set_threshold(LOADING_OBJECTS, *_usual[1:])


def keep_what_is_loaded() -> None:
    """From now on the collector looks as often as usual, but at nothing that is there already.

    Looking at that each time, it would take a good part of the time that counting takes.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_usual)
