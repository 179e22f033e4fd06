"""Bounds that no other test reaches, and docs/limits.md, which names all with their tests."""

import ast
import asyncio
import importlib
import re
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from pipeline.absorb import absorb
from pipeline.access.sites import _names_loopback, check_site
from pipeline.errors import BadInputError, TryAgainError
from pipeline.fetches import Fetch
from pipeline.producer import client, delivery, producer
from pipeline.producer.client import Client
from pipeline.producer.delivery import Delivery
from pipeline.producer.producer import Producer
from pipeline.shard import Shard
from pipeline.web import asking
from pipeline.web.asking import Asking
from pipeline.web.questions import checked_counter
from schemas.addresses import ClickHouseAddress
from schemas.records import Records
from schemas.rules import Family
from schemas.settings import Settings
from sketches.frequency import WIDTH_MAX, Frequency
from sketches.heavy import CAPACITY_MAX, Heavy
from sketches.morris import COUNTERS_MAX, Morris
from tests.kit.clocks import ManualClock
from tests.unit.limits_exempt import EXEMPT

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "limits.md"


def test_texts_that_a_producer_knows_are_forgotten_when_they_are_too_many(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(producer, "_KNOWN_MAX", 10)
    held: Any = SimpleNamespace(_known=set(), _regions={""})
    for number in range(25):
        Producer._learn(cast("Producer", held), f"a:{number}", f"r{number}")
        assert len(held._known) <= 10
        assert len(held._regions) <= 11
    assert "a:24" in held._known


def waiting_for_word(rows: int) -> Any:
    """What `Delivery` looks at, with so many increments on their way."""
    lock = threading.Lock()
    return SimpleNamespace(
        _client=SimpleNamespace(wait_for_room=lambda _timeout_s: True),
        _lock=lock,
        _settled=threading.Condition(lock),
        _in_flight=[0],
        _unsettled_rows=rows,
    )


def test_only_so_many_increments_wait_for_kafkas_word(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delivery, "UNSETTLED_MAX", 100)
    for rows, has_room in ((99, True), (100, False)):
        held = cast("Delivery", waiting_for_word(rows))
        assert Delivery.wait_for_room(held, 0.0) is has_room


def test_who_waits_for_kafkas_word_does_not_look_again_and_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It took the processor from the thread that hears of it."""
    monkeypatch.setattr(delivery, "UNSETTLED_MAX", 100)
    held = cast("Delivery", waiting_for_word(100))
    began_s = time.monotonic()
    assert not Delivery.wait_for_room(held, 0.1)
    assert time.monotonic() - began_s >= 0.1
    frame = cast("Any", SimpleNamespace(partition=0, rows=1, increments=1))
    threading.Timer(0.1, Delivery._count, (held, frame, -1)).start()
    assert Delivery.wait_for_room(held, 60.0)


def test_only_so_many_latencies_are_kept_until_a_report(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "_LATENCIES_MAX", 3)
    held: Any = SimpleNamespace(_room=threading.Condition(), _bytes=0, _latencies_ms={})
    for number in range(5):
        Client._settled(cast("Client", held), 1, 0, float(number))
    assert held._latencies_ms == {0: [0.0, 1.0, 2.0]}


async def test_only_so_many_questions_wait_for_clickhouse(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asking, "WAITING_MAX", 2)
    monkeypatch.setattr(asking, "connect", lambda *_args, **_options: None)
    open_ = threading.Event()
    asked = Asking(ClickHouseAddress("http://127.0.0.1:1"), ManualClock())
    waits = [
        asyncio.create_task(asked.ask(lambda _: open_.wait(10))) for _ in range(asking.THREADS + 2)
    ]
    await asyncio.sleep(0)
    with pytest.raises(TryAgainError, match="too many questions"):
        await asked.ask(lambda _: None)
    open_.set()
    assert await asyncio.gather(*waits) == [True] * len(waits)
    asked.close()


def test_only_so_many_names_are_remembered_as_right() -> None:
    most = checked_counter.cache_info().maxsize
    assert most is not None
    for number in range(most + 10):
        checked_counter(f"limits:{number}")
    assert checked_counter.cache_info().currsize == most
    for _ in range(3):
        with pytest.raises(BadInputError):
            checked_counter("x" * 100_000)


def test_only_so_many_names_of_a_web_without_tokens_are_remembered() -> None:
    most = _names_loopback.cache_info().maxsize
    assert most is not None
    for number in range(most + 10):
        check_site({"host": f"127.0.0.1:{number + 1}"})
    assert _names_loopback.cache_info().currsize == most


@pytest.mark.parametrize(
    "too_large",
    [
        partial(Heavy, CAPACITY_MAX + 1),
        partial(Frequency, 1, WIDTH_MAX + 1),
        partial(Frequency, 33, 8),
        partial(Morris, 0.25, COUNTERS_MAX + 1),
    ],
    ids=["heavy", "frequency", "rows of frequency", "morris"],
)
def test_a_sketch_has_a_size(too_large: partial[object]) -> None:
    with pytest.raises(BadInputError):
        too_large()


def test_a_sketch_holds_no_more_keys_however_many_come() -> None:
    sketch = Heavy(4)
    for start in range(0, 100_000, 10_000):
        sketch.add_many([f"key-{number}" for number in range(start, start + 10_000)])
    assert len(sketch.top(10**6)) <= 4 + sketch._added.block_rows


def test_records_that_are_no_increments_take_room_until_they_are_written() -> None:
    adjustment = b'{"counter":"a:b","by":1,"who":"ada","why":"a test","id":"%d","at":1790000000000}'
    headers = [(("tally-kind", b"adjustment"),)] * 3 + [(("tally-kind", b"heartbeat"),)]
    values: list[bytes | None] = [*(adjustment % number for number in range(3)), b""]
    times = np.full(4, 1_790_000_000_000)
    shard = Shard(0)
    records = Records(0, np.arange(4), times, [b"a:b"] * 4, values, [*headers])
    found = absorb(shard, Fetch(0, 4, records))
    assert (found.rows, found.controls, len(shard.adjustments)) == (0, 4, 3)


def rows_of_the_page() -> list[list[str]]:
    lines = [line for line in PAGE.read_text().splitlines() if line.startswith("|")]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return [row for row in rows if len(row) == 5 and not set(row[0]) <= {"-"} and row[0] != "what"]


def test_the_page_has_a_bound_and_a_test_for_everything() -> None:
    rows = rows_of_the_page()
    assert len(rows) >= 60
    assert all(all(row) for row in rows)
    names = [row[0] for row in rows]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("row", rows_of_the_page(), ids=lambda row: row[0][:40])
def test_a_row_names_a_setting_and_a_test_that_exist(row: list[str]) -> None:
    for setting in re.findall(r"`([^`]+)`", row[2]):
        if setting.startswith("TALLY_"):
            assert setting.removeprefix("TALLY_").lower() in Settings.model_fields, setting
        elif ":" in setting:
            path, _, name = setting.partition(":")
            module = importlib.import_module(path.removesuffix(".py").replace("/", "."))
            assert hasattr(module, name), setting
        else:
            assert is_rule(setting), setting
    tests = re.findall(r"`(tests/[^`]+)::(test_[a-z0-9_]+)`", row[4])
    assert tests, "no test reaches it"
    for path, name in tests:
        assert re.search(rf"def {name}\(", (ROOT / path).read_text()), f"{path}::{name}"


def bounds_of(source: str) -> set[str]:
    """The names of a module's constants that end as a bound does, but for times.

    A time, in `_S_MAX`, `_MS_MAX` or `_MINUTES_MAX`, holds nothing.
    """
    found = set()
    for statement in ast.parse(source).body:
        match statement:
            case ast.Assign(targets=targets):
                pass
            case ast.AnnAssign(target=target):
                targets = [target]
            case _:
                continue
        names = {one.id for part in targets for one in ast.walk(part) if isinstance(one, ast.Name)}
        found |= {name for name in names if _BOUND.search(name) and not _TIME.search(name)}
    return found


_BOUND, _TIME = re.compile(r"(^_?MAX_|_MAX$|_KEPT$)"), re.compile(r"_(S|MS|MINUTES)_MAX$")


def test_what_is_a_bound_is_known_by_its_name() -> None:
    source = (
        "A_MAX = 1\n_B_KEPT: int = 2\nC_MAX, D = 3, 4\nMAX_E = 5\nF_S_MAX = 6.0\nG_MS_MAX = 7\n"
        "MAXIMUM = 8\ndef h():\n    I_MAX = 9\n"
    )
    assert bounds_of(source) == {"A_MAX", "_B_KEPT", "C_MAX", "MAX_E"}


def named_in_code(names_of: Callable[[str], set[str]]) -> set[str]:
    """What this finds in each module of the program, as docs/limits.md would name it."""
    return {
        f"{path.relative_to(ROOT)}:{name}"
        for folder in ("pipeline", "sketches", "schemas")
        for path in (ROOT / folder).rglob("*.py")
        for name in names_of(path.read_text())
    }


def expect_a_row_or_a_reason(in_code: set[str], reasons: Mapping[str, Sequence[str]]) -> None:
    """Each has one of the two; `reasons` to have no row are given to what is still there."""
    in_rows = {name for row in rows_of_the_page() for name in re.findall(r"`([^`]+)`", row[2])}
    exempt = [name for names in reasons.values() for name in names]
    assert len(exempt) == len(set(exempt)), "two reasons for one"
    assert not in_rows & set(exempt), "a row, and a reason to have none"
    assert set(exempt) <= in_code, "a reason for what is not there any more"
    missing = sorted(in_code - in_rows - set(exempt))
    assert not missing, (
        "bound each, and give it a row in docs/limits.md with a test that reaches it"
    )


def test_every_bound_in_the_code_has_a_row_or_a_reason_to_have_none() -> None:
    in_code = named_in_code(bounds_of)
    assert len(in_code) > 200
    expect_a_row_or_a_reason(in_code, EXEMPT)


def is_rule(name: str) -> bool:
    """Whether `tally.toml` has it, or it is a parameter of the producer."""
    top, _, below = name.partition(".")
    field = Family.model_fields.get(top)
    if field is None:
        return name in {"ids_per_partition", "waiting_max"}
    inner = getattr(field.annotation, "model_fields", {})
    return not below or below in {one.alias or key for key, one in inner.items()}
