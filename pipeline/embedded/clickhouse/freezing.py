"""The engine's tables at one moment, as a folder that another process may copy.

ALTER TABLE … FREEZE makes hard links of a table's parts, which takes milliseconds and no room until
merges replace them. All tables are frozen while no statement writes, so the folder is a state that
ClickHouse was in as a whole, and not a different one for each table. Beside the parts are the small
files of the engine: definitions, functions, mutations that are not done yet.

BACKUP was not taken: chDB has no allowed path for it to write to and reads no configuration file,
and writers would have to wait for as long as it copies.
"""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import msgspec

from pipeline.embedded.clickhouse.control import Frozen
from pipeline.embedded.clickhouse.sql_text import identifier, quoted

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pipeline.clock import Clock
    from pipeline.embedded.clickhouse.engine import Engine
    from pipeline.embedded.clickhouse.write_gate import WriteGate

PATIENCE_S = 20.0
_NAME = "tallybackup"
_TABLES = (
    b"SELECT database, name FROM system.tables "
    b"WHERE engine LIKE '%MergeTree' AND NOT is_temporary AND database NOT IN ("
    + b", ".join(map(quoted, ("system", "INFORMATION_SCHEMA", "information_schema")))
    + b") FORMAT JSONCompactEachRow"
)


class Freezer:
    """Makes and removes the one frozen copy there is. Its calls block, in a thread of their own."""

    def __init__(
        self, engine: Engine, engine_folder: Path, target: Path, gate: WriteGate, clock: Clock
    ) -> None:
        """Removes what an earlier process left of a copy."""
        self._engine = engine
        self._folder = engine_folder
        self._target = target
        self._gate = gate
        self._clock = clock
        self.thaw()

    def freeze(self) -> Frozen:
        """A folder with all that another engine needs to open the tables as they are now.

        It stays until `thaw` or the next `freeze`. Raises TryAgainError when somebody writes for
        too long, ClickHouseError and OSError, a full disk among them.
        """
        self.thaw()
        connection = self._engine.connect()
        began_s = self._clock.monotonic_s()
        try:
            with self._gate.shut(PATIENCE_S):
                for line in connection.query(_TABLES)[0].splitlines():
                    table = b".".join(map(identifier, msgspec.json.decode(line, type=list[str])))
                    connection.query(b"ALTER TABLE %s FREEZE WITH NAME %s" % (table, quoted(_NAME)))
                self._copy_small_files()
        except BaseException:
            self.thaw()
            raise
        finally:
            connection.close()
        held_ms = (self._clock.monotonic_s() - began_s) * 1000
        shadow = self._folder / "shadow" / _NAME / "store"
        if shadow.exists():
            for frozen in shadow.glob("*/*"):
                place = self._target / "store" / frozen.relative_to(shadow)
                place.mkdir(parents=True, exist_ok=True)
                for part in frozen.iterdir():
                    part.rename(place / part.name)
        shutil.rmtree(self._folder / "shadow", ignore_errors=True)
        return Frozen(str(self._target), _files_in(self._target), round(held_ms, 1))

    def thaw(self) -> None:
        """Remove the copy, if there is one. Nothing else refers to it."""
        shutil.rmtree(self._target, ignore_errors=True)
        shutil.rmtree(self._folder / "shadow", ignore_errors=True)

    def _copy_small_files(self) -> None:
        self._target.mkdir(parents=True)
        for path in _small_files(self._folder):
            place = self._target / path.relative_to(self._folder)
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, place, follow_symlinks=False)


def _files_in(folder: Path) -> int:
    return sum(path.is_symlink() or path.is_file() for path in folder.rglob("*"))


def _small_files(folder: Path) -> Iterator[Path]:
    """Everything but the parts of tables: those are folders within a table's."""
    for name in ("metadata", "user_defined", "data"):
        for path in sorted((folder / name).rglob("*")):
            if path.is_symlink() or path.is_file():
                yield path
    for path in sorted((folder / "store").glob("*/*/*")):
        if path.is_symlink() or path.is_file():
            yield path
