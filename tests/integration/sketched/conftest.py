"""The same ClickHouse, and the same way to fill it, as for rollups."""

from tests.integration.rollup.conftest import door, site

__all__ = ["door", "site"]
