"""Counters and families as people type them: wrong usage where it is the other one of the two."""

import typer


def check_counter(text: str) -> None:
    """Wrong usage if it has no family. There is no such counter, so it would be told to be 0."""
    if ":" not in text:
        raise typer.BadParameter(
            f"{text!r} has no key: write family:key; `tally top {text}` is about the family"
        )


def check_family(text: str) -> None:
    """Wrong usage if it is a counter."""
    if ":" in text:
        raise typer.BadParameter(f"a family has no colon; is it {text.partition(':')[0]!r}?")
