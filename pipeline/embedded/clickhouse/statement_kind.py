"""What the door needs to know of a statement before the engine sees it."""

from dataclasses import dataclass, replace
from enum import Enum

from pipeline.embedded.clickhouse.sql_text import quoted, setting_name


class Kind(Enum):
    """How a statement is run."""

    READ = "read"  # rows stream out
    LOAD = "load"  # an INSERT with data beside it
    LOAD_SELECT = "load select"  # INSERT … SELECT … FROM input(…) with data beside it
    SET = "set"
    USE = "use"
    OTHER = "other"  # a small answer or none


@dataclass(frozen=True, slots=True)
class Statement:
    """A parsed statement.

    `sql` is what the engine runs: for LOAD the head without its FORMAT or VALUES, for READ without
    its FORMAT, so that the output's place can be added. `tail` is what follows a READ's FORMAT (its
    settings). `format` is None when the statement names none. `data_at` is where data starts.
    """

    kind: Kind
    sql: bytes
    format: str | None = None
    tail: bytes = b""
    data_at: int = 0

    @property
    def takes_settings(self) -> bool:
        """Whether `with_setting` can be used: not where it names the query itself."""
        return self.kind is Kind.READ and b"log_comment" not in (self.sql + self.tail).lower()

    def with_setting(self, name: str, value: str) -> "Statement":
        """This READ statement with one setting more, for itself alone."""
        pair = setting_name(name) + b" = " + quoted(value)
        return replace(
            self, tail=self.tail + (b", " if self.tail.strip() else b" SETTINGS ") + pair
        )

    def into(self, path: str, default_format: str) -> bytes:
        """This READ statement, writing its rows to `path`, which must exist and may be a pipe."""
        fmt = (self.format or default_format).encode()
        return b"%s\nINTO OUTFILE %s APPEND FORMAT %s %s" % (self.sql, quoted(path), fmt, self.tail)
