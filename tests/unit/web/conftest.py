"""The world is for all tests of the web."""

from tests.unit.web.world import world

__all__ = ["world"]
