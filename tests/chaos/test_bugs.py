"""What is a bug by the output of a part, and by its end, and what a server that is away explains.

The samples were printed by parts of Tally; but for their paths, and where a test says so.
"""

import importlib
import logging
import re
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import pipeline
from pipeline.errors import TryAgainError
from tests.chaos.bugs import SHOWN_MAX, TRY_AGAIN, Bug, bugs_in, printed, told
from tests.chaos.crew import Crew
from tests.chaos.ends import unexplained
from tests.chaos.harms import Harms
from tests.chaos.run import Outcome
from tests.chaos.schedule import Harm
from tests.chaos.score import Score
from tests.chaos.site import Site
from tests.kit.processes import Process
from tests.kit.truth.checker import Verdict

CRASH = """\
worker ready: 8 partitions
[2026-11-19 21:07:28,945] [28157] [ERROR] [^-FolderlessApp]: Crashed reason=ShardRefusedError('shard 0: its log has other records from offset 81 to 88') 
Traceback (most recent call last):
  File "/srv/tally/.venv/lib/python3.11/site-packages/mode/services.py", line 878, in _execute_task
    await task
  File "/srv/tally/.venv/lib/python3.11/site-packages/faust/app/base.py", line 1035, in _wrapped
    return await task()
           ^^^^^^^^^^^^
  File "/srv/tally/pipeline/writes/pulse.py", line 92, in run
    await self.beat()
  File "/srv/tally/pipeline/log_check.py", line 101, in check_flushed
    raise ShardRefusedError(
pipeline.errors.ShardRefusedError: shard 0: its log has other records from offset 81 to 88
[2026-11-19 21:07:28,951] [28157] [CRITICAL] [^PromptWorker]: We experienced a crash! Reraising original exception... 
"""  # noqa: W291, E501 - as Faust prints it
RAISED = (
    "pipeline.errors.ShardRefusedError: shard 0: its log has other records from offset 81 to 88"
)

TAKE_OVER = CRASH.replace(
    """\
  File "/srv/tally/.venv/lib/python3.11/site-packages/mode/services.py", line 878, in _execute_task
    await task
""",
    """\
  File "/srv/tally/pipeline/store.py", line 91, in on_recovery_completed
    await self.take_over(recovered)
""",
)

STOP = """\
[2026-11-19 21:04:13,083] [14908] [ERROR] [^--BulkConsumer]: Error while stopping child <BulkConsumerThread: crashed >: RuntimeError('Event loop is closed') 
Traceback (most recent call last):
  File "/srv/tally/.venv/lib/python3.11/site-packages/mode/services.py", line 963, in _default_stop_children
    await asyncio.shield(child.stop())
  File "/root/.pyenv/versions/3.11.7/lib/python3.11/asyncio/base_events.py", line 519, in _check_closed
    raise RuntimeError('Event loop is closed')
RuntimeError: Event loop is closed
[2026-11-19 21:04:13,118] [14908] [CRITICAL] [^PromptWorker]: We experienced a crash! Reraising original exception... 
"""  # noqa: W291, E501 - as Faust prints it

AMID_HARMS = """\
clickhouse ready on 127.0.0.1:45159
WARNING /srv/log/data/topics/1-tally.increments/7: append failed: [Errno 28] No space left on device
the Kafka client died (messages had no word); going on with a new one
2026-11-19 21:04:25,877 WARNING ClickHouse cannot be reached to migrate the functions of tally: Error ('Connection aborted.', RemoteDisconnected('Remote end closed connection without response')) executing HTTP request attempt 1 (http://127.0.0.1:39681); trying again
[2026-11-19 21:07:10,373] [25269] [ERROR] Unable connect to node with id 1: KafkaConnectionError: Connection at 127.0.0.1:40613 closed 
[2026-11-19 21:07:10,432] [25269] [WARNING] stopping without a last checkpoint, the next start reads on: TryAgainError('the changelog writer is not started') 
[2026-11-19 21:07:11,104] [25269] [ERROR] OffsetCommit failed for group tally-strict due to group error ([Error 25] UnknownMemberIdError: tally-strict), will rejoin 
tally: ClickHouse at http://127.0.0.1:39681 does not answer; is it up? TALLY_CLICKHOUSE sets its URL
tally: ClickHouse did not tell the rules: Error ('Connection aborted.', ConnectionResetError(104, 'Connection reset by peer')) executing HTTP request attempt 3 (http://127.0.0.1:39681)
"""  # noqa: W291, E501 - as parts print it

CHAINED = """\
2026-11-19 21:04:25,877 ERROR POST '/api/v1/increments' failed
Traceback (most recent call last):
  File "/srv/tally/pipeline/web/values.py", line 10, in get
    return found[key]
           ~~~~~^^^^^
KeyError: 'likes'

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "/srv/tally/pipeline/web/around.py", line 67, in __call__
    await self._app(scope, receive, told)
{}
2026-11-19 21:04:25,978 INFO and so on
"""

GROUP = """\
  + Exception Group Traceback (most recent call last):
  |   File "<frozen runpy>", line 198, in _run_module_as_main
  | ExceptionGroup: two (2 sub-exceptions)
  +-+---------------- 1 ----------------
    | Traceback (most recent call last):
    |   File "/srv/tally/pipeline/one.py", line 1, in one
    | ConnectionResetError: [Errno 104] Connection reset by peer
    +------------------------------------
"""


def bugs(output: str) -> list[Bug]:
    return bugs_in(output.splitlines(), "worker-0-1.txt")


def logged(error: Exception) -> str:
    """As a part of Tally logs what it did not expect."""
    try:
        raise error
    except Exception:
        record = logging.LogRecord("", logging.ERROR, "", 0, "trying again", (), sys.exc_info())
        return logging.Formatter("%(asctime)s %(levelname)s %(message)s").format(record)


def test_what_parts_print_of_servers_that_are_away_is_no_bug() -> None:
    assert bugs(AMID_HARMS) == []


@pytest.mark.parametrize("output", [CRASH, TAKE_OVER])
def test_a_crash_of_a_worker_is_told_with_its_line(output: str) -> None:
    [bug] = bugs(output)
    assert (bug.file, bug.line) == ("worker-0-1.txt", 3)
    assert bug.what.startswith(f"{RAISED}, after: [2026-11-19 21:07:28,945]")
    assert str(bug).startswith(f"worker-0-1.txt:3: {RAISED}")


@pytest.mark.parametrize("output", [CRASH, TAKE_OVER])
@pytest.mark.parametrize(
    "raised",
    [
        "pipeline.errors.TryAgainError: Kafka at 127.0.0.1:40613 does not answer; is it up?",
        "pipeline.strict.answers.NotDecidedYetError: not decided within 3 s",
        "aiokafka.errors.KafkaConnectionError: KafkaConnectionError: Unable to bootstrap",
        "aiokafka.errors.ConsumerStoppedError",
        "ConnectionResetError: [Errno 104] Connection reset by peer",
        "OSError: [Errno 28] No space left on device: 'x'",
    ],
)
def test_a_worker_that_crashed_since_a_server_was_away_has_no_bug(output: str, raised: str) -> None:
    assert bugs(output.replace(RAISED, raised)) == []


@pytest.mark.parametrize(
    "raised",
    [
        "KeyError: 'likes'",
        "AssertionError",
        "OSError: [Errno 9] Bad file descriptor",
        "RuntimeError: Event loop is closed",
        "pipeline.errors.OperatorError: somebody must act",
        "pipeline.errors.TryAgainErrors: by no such name",
        "ConnectionResetErrors: by no such name",
    ],
)
def test_a_worker_that_crashed_for_anything_else_has_one(raised: str) -> None:
    [bug] = bugs(CRASH.replace(RAISED, raised))
    assert bug.what.startswith(raised)


def test_every_error_by_which_tally_says_that_a_server_is_away_is_known_as_one() -> None:
    found = []
    for path in Path(pipeline.__file__).parent.rglob("*.py"):
        for name in re.findall(r"^class (\w+)\(TryAgainError\)", path.read_text(), re.MULTILINE):
            parts = path.relative_to(Path(pipeline.__file__).parents[1]).with_suffix("").parts
            found.append(getattr(importlib.import_module(".".join(parts)), name))
    assert len(found) > 3
    for kind in [TryAgainError, *found]:
        assert issubclass(kind, TryAgainError)
        assert TRY_AGAIN.match(f"{kind.__module__}.{kind.__qualname__}: away"), kind


def test_a_stop_after_a_crash_of_which_faust_complains_is_no_bug() -> None:
    assert bugs(STOP) == []
    assert len(bugs(STOP.replace("Error while stopping child", "Crashed reason="))) == 1


def test_what_tally_itself_met_with_unprepared_is_a_bug_though_a_server_was_away() -> None:
    assert bugs(logged(TryAgainError("away"))) == []
    [bug] = bugs(logged(ConnectionResetError("reset")))
    assert (bug.line, bug.what.partition(", after: ")[0]) == (2, "ConnectionResetError: reset")
    [bug] = bugs(logged(KeyError("likes")))
    assert bug.what.startswith("KeyError: 'likes', after: ")


def test_what_nobody_caught_is_a_bug_whatever_it_was() -> None:
    frames = '  File "<frozen runpy>", line 198, in _run_module_as_main\n'
    thread = '  File "/usr/lib/python3.11/threading.py", line 1045, in _bootstrap_inner\n'
    for head, first in (("", frames), ("Exception in thread Thread-1:\n", thread)):
        output = f"{head}Traceback (most recent call last):\n{first}BrokenPipeError: pipe\n"
        assert len(bugs(output)) == 1


def test_of_a_chain_the_last_is_told_once() -> None:
    [bug] = bugs(CHAINED.format("TypeError: no likes\nof two lines"))
    assert (bug.line, bug.what.partition(", after: ")[0]) == (2, "TypeError: no likes")
    assert "POST '/api/v1/increments' failed" in bug.what
    assert bugs(CHAINED.format("pipeline.errors.TryAgainError: away")) == []
    assert len(bugs(CHAINED.format("KeyError: 1") + CHAINED.format("KeyError: 2"))) == 2


def test_a_group_of_exceptions_is_a_bug_and_one() -> None:
    [bug] = bugs(GROUP)
    assert bug.line == 1


def test_internal_errors_and_what_ends_the_interpreter_are_bugs() -> None:
    said = "tally: internal error: ConnectionResetError: reset; run again with --debug"
    fatal = "Fatal Python error: Segmentation fault"
    assert [(bug.line, bug.what) for bug in bugs(f"one\n{said}\n{fatal}\n")] == [
        (2, said),
        (3, fatal),
    ]


def test_a_traceback_that_is_cut_short_is_a_bug() -> None:
    [bug] = bugs("Traceback (most recent call last):\n")
    assert bug.what.startswith("cut short")


def test_the_output_of_every_part_is_read_but_that_of_a_kafka(tmp_path: Path) -> None:
    (tmp_path / "log").mkdir()
    read = ("clickhouse.txt", "command-replay-1.txt", "log/log.txt", "sender-web-3.txt")
    for name in (*read, "web-0.txt", "worker-1-2.txt", "log/kafka.txt", "other.txt"):
        (tmp_path / name).write_text(CRASH)
    found = [bug.file for bug in printed(tmp_path)]
    assert sorted(found) == [*read, "web-0.txt", "worker-1-2.txt"]


def test_some_bugs_are_told_and_how_many_there_are() -> None:
    lines = told([Bug("web-0.txt", line, "KeyError") for line in range(SHOWN_MAX + 2)]).splitlines()
    assert lines[0] == "22 bugs by what the parts printed and how they ended"
    assert lines[1] == "  web-0.txt:0: KeyError"
    assert (len(lines), lines[-1]) == (SHOWN_MAX + 2, "  and 2 more")


def test_a_run_with_true_numbers_and_a_bug_is_not_well() -> None:
    assert Outcome(1, Verdict(), Score()).is_well
    outcome = Outcome(1, Verdict(), Score(), bugs=bugs(CRASH))
    assert not outcome.is_well
    assert f"worker-0-1.txt:3: {RAISED}" in str(outcome)


@pytest.mark.parametrize(
    ("code", "sent", "output", "why"),
    [
        (None, (), "", ""),
        (-9, (signal.SIGKILL,), "", ""),
        (0, (signal.SIGTERM, signal.SIGKILL), "", ""),
        (-15, (signal.SIGTERM, signal.SIGKILL), "", ""),
        (1, (), "clickhouse ready on a:1\nthe disk of /srv is full: make room on it\n", ""),
        (1, (), "tally: Kafka at a:1 does not answer; is it up?", ""),
        (1, (), CRASH, ""),
        (1, (), "clickhouse ready on a:1\n", "ended with 1 and did not say why"),
        (1, (), "worker ready: 4 partitions\n", "ended with 1 and did not say why"),
        (1, (), "", "ended with 1 and did not say why"),
        (-11, (), "", "was ended by SIGSEGV, which nobody sent"),
        (-11, (signal.SIGTERM, signal.SIGKILL), "", "was ended by SIGSEGV, which nobody sent"),
        (-9, (), "", "was ended by SIGKILL, which nobody sent"),
        (0, (), "", "ended by itself with 0"),
        (137, (signal.SIGKILL,), "", "ended by itself with 137"),
    ],
)
def test_an_end_is_explained_by_what_was_sent_or_said(
    code: int | None, sent: tuple[signal.Signals, ...], output: str, why: str
) -> None:
    assert unexplained(code, sent, output) == why


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    """Nothing of it is started, but what a test starts."""
    made = Site("embedded", tmp_path, print)
    made.broker = made._made_broker()
    try:
        yield made
    finally:
        made.close()


def started(site: Site, program: str) -> Process:
    """In the place of a worker, whose output has two lines."""
    path = site.folder / "worker-0-1.txt"
    process = Process(
        [sys.executable, "-c", f"print('one\\ntwo', flush=True)\n{program}"], output_path=path
    )
    process.wait_for_line("two")
    site.workers[0] = process
    return process


def test_a_part_that_ends_by_itself_is_told_once_before_it_is_started_again(site: Site) -> None:
    started(site, "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)").wait()
    for _ in range(2):
        site._ended.clear()
        site._keep("worker-0", site._ended.set)
    site.look_at_ends()
    what = "worker-0 was ended by SIGSEGV, which nobody sent"
    assert site.bugs() == [Bug("worker-0-1.txt", 2, what)]


@pytest.mark.parametrize("verb", ["kill", "restart"])
def test_a_part_that_a_harm_ended_is_no_bug_and_the_next_end_is(site: Site, verb: str) -> None:
    harms = Harms(site, Crew(site.folder, 1, 1.0, {}), print)
    process = started(site, "import time; time.sleep(60)")
    harms.do(Harm(0.0, f"{verb} worker", 0, 0.0, 0.5))
    assert not process.running
    site.look_at_ends()
    assert site.bugs() == []
    started(site, "import time; time.sleep(60)").kill()
    site.look_at_ends()
    assert [bug.what for bug in site.bugs()] == ["worker-0 was ended by SIGKILL, which nobody sent"]


def test_a_sender_that_had_ended_before_it_was_to_be_killed_is_told(tmp_path: Path) -> None:
    crew = Crew(tmp_path, 1, 1.0, {})
    path = tmp_path / "sender-impatient-1.txt"
    with Process([sys.executable, "-c", "import os; os.abort()"], output_path=path) as process:
        process.wait()
        crew._processes[0] = process
        crew.kill(0, 0.0)
        crew.close()
    assert [str(bug) for bug in crew.ends.bugs] == [
        "sender-impatient-1.txt:0: impatient was ended by SIGABRT, which nobody sent"
    ]
