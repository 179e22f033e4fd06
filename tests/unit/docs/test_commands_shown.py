"""Every command line that a page shows is one that `tally` takes."""

from pathlib import Path

import pytest

from tests.kit.command_lines import (
    NotACommandError,
    check_span,
    lines_shown,
    parse,
    spans_shown,
)
from tests.unit.docs.pages import PAGES, name_of


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_commands_in_blocks_can_be_run(page: Path) -> None:
    for arguments in lines_shown(page.read_text()):
        try:
            parse(arguments)
        except NotACommandError as error:
            pytest.fail(f"{name_of(page)}: tally {' '.join(arguments)}: {error}")


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_commands_in_sentences_exist_with_their_options(page: Path) -> None:
    for span in spans_shown(page.read_text()):
        try:
            check_span(span)
        except NotACommandError as error:
            pytest.fail(f"{name_of(page)}: `{span}`: {error}")


def test_enough_is_found_to_be_checked() -> None:
    texts = [page.read_text() for page in PAGES]
    assert sum(len(list(lines_shown(text))) for text in texts) > 100
    assert sum(len(list(spans_shown(text))) for text in texts) > 200


SHOWN = """\
Text with `tally nonsense` in it.

    $ echo '{"counter": "likes:a"}' | TALLY_KAFKA=a:1 tally produce -    # sends it
    sent 1 event
    tally is what it printed
    eu$ .venv/bin/tally count hashtag:#cats --by 1m > file

```toml
tally count
```

```console
tally replay --chekc
```
"""


def test_commands_are_found_where_people_would_see_them() -> None:
    assert list(lines_shown(SHOWN)) == [
        ["produce", "-"],
        ["count", "hashtag:#cats", "--by", "1m"],
        ["replay", "--chekc"],
    ]
    assert list(spans_shown(SHOWN)) == ["tally nonsense"]


@pytest.mark.parametrize(
    "arguments",
    [
        ["cuont", "likes:a"],
        ["count"],
        ["count", "likes:a", "--chekc"],
        ["count", "likes:a", "--by", "5m"],
        ["up", "--workers", "many"],
        ["token", "mint"],
        ["--verbose"],
    ],
)
def test_what_nobody_could_run_is_noticed(arguments: list[str]) -> None:
    with pytest.raises(NotACommandError):
        parse(arguments)


@pytest.mark.parametrize("span", ["tally nonsense", "tally count COUNTER --afetr RECEIPT"])
def test_a_mention_of_what_does_not_exist_is_noticed(span: str) -> None:
    with pytest.raises(NotACommandError):
        check_span(span)
