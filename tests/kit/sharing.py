"""Which tests run in one process, and in what order, where pytest runs them in several.

Servers live as long as a process of tests, so tests that share servers must share the process.
"""

from pathlib import PurePosixPath

from xdist.scheduler import LoadScopeScheduling

INTEGRATION = PurePosixPath("tests/integration")
LONGEST = (
    *("builds", "worker", "worker-kafka", "web", "producer", "planning-kafka", "log-kafka", "log"),
    *("planning", "rollup", "trends"),
)
"""These begin, so that in the end no process is left alone with one of them."""


def group_of(nodeid: str) -> str:
    """Tests of one group run in one process, one after the other.

    A folder of integration tests has servers for all of its files, and so has a file beside the
    folders; those on a real Kafka have others than those on the embedded log. Other tests share
    nothing.
    """
    path = PurePosixPath(nodeid.partition("::")[0])
    if INTEGRATION not in path.parents:
        return nodeid
    is_beside = path.parent == INTEGRATION
    name = path.stem if is_beside else path.relative_to(INTEGRATION).parts[0]
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
