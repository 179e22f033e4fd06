"""The list of commands: complete, honest about what is missing, quick to load."""

import sys
from collections.abc import Iterator
from importlib import import_module
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec

import pytest

import pipeline.cli
from pipeline.cli import build_app, run

# Every command of the design, by hand: the code's own lists could only agree with themselves.
# fmt: off
DESIGNED = [
    "demo", "up", "worker", "serve", "produce", "load", "tail", "count", "explain", "unique",
    "top", "trending", "rank", "replay", "status", "doctor", "dead-letters", "adjust", "reset",
    "history", "rules", "shard", "partitions", "advise", "migrate", "schema", "backup", "restore",
    "exchange", "accept-log", "verify", "builds", "token",
]
# fmt: on

HEAVY = frozenset({"chdb", "faust", "pyarrow", "confluent_kafka", "aiokafka", "clickhouse_connect"})


@pytest.fixture(autouse=True)
def wide_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setenv("TERMINAL_WIDTH", "120")


def listed(help_text: str) -> set[str]:
    words = [line.strip("│ ").split() for line in help_text.splitlines() if line.startswith("│")]
    return {line[0] for line in words if line}


def test_help_lists_every_command_of_the_design(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--help"]) == 0
    assert set(DESIGNED) <= listed(capsys.readouterr().out)


def test_no_command_is_registered_twice() -> None:
    app = build_app()
    names = [command.name for command in app.registered_commands]
    names += [group.name for group in app.registered_groups]
    assert sorted(names, key=str) == sorted(DESIGNED)


def test_the_designed_options_of_up_are_there(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["up", "--help"]) == 0
    options = {"--data", "--kafka-port", "--clickhouse-port", "--web-port", "--workers", "--fsync"}
    assert options <= listed(capsys.readouterr().out)


class Refusing(MetaPathFinder):
    """Fails an import of a heavy package."""

    def find_spec(self, fullname: str, *_: object) -> ModuleSpec | None:
        assert fullname.partition(".")[0] not in HEAVY, f"{fullname} is imported at start-up"
        return None


@pytest.fixture
def fresh_imports() -> Iterator[None]:
    """Forgets Tally's and the heavy modules, and brings the very same ones back afterwards."""
    before = dict(sys.modules)
    for name in before:
        if name.partition(".")[0] in HEAVY | {"pipeline", "schemas", "sketches"}:
            del sys.modules[name]
    refusing = Refusing()
    sys.meta_path.insert(0, refusing)
    yield
    sys.meta_path.remove(refusing)
    sys.modules.clear()
    sys.modules.update(before)


@pytest.mark.usefixtures("fresh_imports")
def test_the_command_line_loads_without_heavy_packages() -> None:
    cli = import_module("pipeline.cli")
    assert cli is not pipeline.cli
    cli.build_app()


@pytest.mark.usefixtures("fresh_imports")
def test_a_command_that_is_named_brings_no_other(capsys: pytest.CaptureFixture[str]) -> None:
    cli = import_module("pipeline.cli")
    assert cli.run(["accept-log", "--help"]) == 0
    assert "tally accept-log [OPTIONS]" in capsys.readouterr().out
    loaded = {name for name in cli.COMMANDS if f"pipeline.cli.{name}" in sys.modules}
    assert loaded == {"accept_log"}


@pytest.mark.usefixtures("fresh_imports")
def test_the_check_for_heavy_packages_can_fail() -> None:
    with pytest.raises(AssertionError, match="confluent_kafka is imported at start-up"):
        import_module("pipeline.local.up")
