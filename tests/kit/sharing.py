"""Which tests run in one process, and in what order, where pytest runs them in several.

Servers live as long as a process of tests, so tests that share servers must share the process.
"""

from pathlib import PurePosixPath

from xdist.scheduler import LoadScopeScheduling

INTEGRATION = PurePosixPath("tests/integration")
CHAOS = PurePosixPath("tests/chaos")
APART = frozenset(
    {
        *("builds", "planning"),
        *("producer/test_client", "producer/test_restarts", "producer/test_viral"),
        *("reconcile/test_worker", "web/test_apart"),
    }
)
"""Folders whose files, and files in other folders, that use no server of their folder."""

LONGEST = (
    *("chaos-test_chaos", "chaos-test_truth"),
    *("builds/test_replay", "worker", "web", "producer", "worker-kafka", "builds/test_rules"),
    *("builds/test_kills", "log-kafka", "log", "complete", "complete-kafka", "dashboard"),
    *("producer/test_viral", "builds/test_compare", "test_up", "rollup", "reconcile", "trends"),
    *("exchange", "planning/test_worker_plan", "planning/test_following-kafka", "strict", "once"),
)
"""These begin, so that in the end no process is left alone with one of them."""


def group_of(nodeid: str) -> str:
    """Tests of one group run in one process, one after the other.

    A folder of integration tests has servers for all of its files, unless its files or some of them
    are APART, and so has a file beside the folders; those on a real Kafka have others than those on
    the embedded log. Chaos has servers of each file's own. Other tests share nothing.
    """
    path = PurePosixPath(nodeid.partition("::")[0])
    if CHAOS in path.parents:
        return f"chaos-{path.stem}"
    if INTEGRATION not in path.parents:
        return nodeid
    file = path.relative_to(INTEGRATION).with_suffix("")
    is_apart = len(file.parts) == 1 or not APART.isdisjoint({str(file), file.parts[0]})
    name = str(file) if is_apart else file.parts[0]
    return f"{name}-kafka" if "[kafka" in nodeid else name


def rank(nodeid: str) -> int:
    """Less for what is to begin earlier."""
    group = group_of(nodeid)
    return LONGEST.index(group) if group in LONGEST else len(LONGEST)


class Sharing(LoadScopeScheduling):  # type: ignore[misc]  # xdist ships no types
    """Gives a process the next group as soon as it has none.

    xdist's own marks for groups have no effect with pytest 9.2, which keeps ids of its own.
    """

    def _split_scope(self, nodeid: str) -> str:
        return group_of(nodeid)
