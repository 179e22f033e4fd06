"""What the tutorial and the how-tos show is what a newcomer gets who types it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kit.shown import File, Step, Terminal, agrees, parts
from tests.kit.up import Found, running_up

DOCS = Path(__file__).parents[3] / "docs"
PAGES = [DOCS / "tutorial.md", *sorted((DOCS / "how-to").glob("*.md"))]
RUN = [page for page in PAGES if any(parts(page.read_text()))]


@pytest.fixture(scope="module")
def tally(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Found]:
    with running_up(tmp_path_factory.mktemp("shown") / "data") as found:
        yield found


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("page", RUN, ids=lambda page: page.stem)
def test_commands_print_what_the_page_shows(page: Path, tally: Found, tmp_path: Path) -> None:
    terminal = Terminal(tmp_path, tally)
    for part in parts(page.read_text()):
        if isinstance(part, File):
            terminal.write(part)
            continue
        printed = terminal.printed(part)
        terminal.learn(part, printed)
        assert agrees(part.shown, printed), _told(page, part, printed)


def _told(page: Path, step: Step, printed: str) -> str:
    shown = "\n".join(step.shown)
    return (
        f"{page.name}: $ {step.command}\n--- shown\n{shown}\n--- printed\n{printed}\n"
        f"if that is right: python -m tests.kit.shown --write {page}"
    )


def test_the_tutorial_goes_from_the_first_counter_to_a_replay() -> None:
    steps = [part.command for part in parts(RUN[0].read_text()) if isinstance(part, Step)]
    assert len(steps) > 20
    for wanted in ("produce", "count", "dead-letters --retry", "adjust", "verify", "replay --swap"):
        assert any(f"tally {wanted}" in command for command in steps)


@pytest.mark.parametrize(
    ("shown", "printed", "same"),
    [
        (["likes:a  3"], "likes:a    3\n", True),
        (["likes:a  3"], "likes:a  4\n", False),
        (["at 2026-11-17T12:25:00Z  3"], "at 2027-01-02T03:04:05.678Z 3\n", True),
        (["…", "done"], "one\ntwo\ndone\n", True),
        (["…", "done"], "one\ntwo\n", False),
        (['{"receipt":"7:15"}'], '{"receipt":"3:99"}', True),
        ([], "tally: something went wrong\n", False),
    ],
)
def test_only_times_places_and_ids_may_differ(shown: list[str], printed: str, same: bool) -> None:
    assert agrees(shown, printed) is same
