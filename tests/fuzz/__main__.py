"""Runs targets, and puts inputs through them again.

    python -m tests.fuzz --list                    what there is, and what each door promises
    python -m tests.fuzz TARGET --minutes 10       one target, guided by coverage (needs atheris)
    python -m tests.fuzz --all --minutes 10        each of them, one after the other
    python -m tests.fuzz TARGET --minutes 1 --keep take what reaches further into the corpus
    python -m tests.fuzz TARGET FILE ...           the inputs in files, once more, with a traceback

The exit code is 1 when something was found, or when a run ended early, which a line then says. An
input that a run found is kept beside the corpus, in tests/fuzz/findings/TARGET, and its file is
named in the output.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from tests.fuzz.running import Run, guided_run, is_installed, why_not
from tests.fuzz.targets import TARGETS, load


def main(arguments: list[str]) -> int:
    """The exit code."""
    asked = _parsed(arguments)
    if asked.list:
        for name in TARGETS:
            print(f"{name:22} {load(name).PROMISE}")
        return 0
    names = list(TARGETS) if asked.all else [asked.target]
    if asked.files:
        for path in asked.files:
            load(names[0]).check(Path(path).read_bytes())
            print(f"{path}: as promised")
        return 0
    if not is_installed():
        print(why_not(), file=sys.stderr)
        return 2
    found = [_told(guided_run(name, asked.minutes, keeps=asked.keep)) for name in names]
    return 1 if any(run.findings or run.shortfall for run in found) else 0


def _told(run: Run) -> Run:
    print(
        f"{run.target:22} {run.executions:>10} executions in {run.seconds} s, "
        f"{run.features} features, {len(run.findings)} findings",
        flush=True,
    )
    for path in run.findings:
        print(f"    {path}", flush=True)
    if run.shortfall:
        print(f"    {run.shortfall}", flush=True)
    if run.findings or run.shortfall:
        print(run.output[-4000:], flush=True)
    return run


def _parsed(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz")
    parser.add_argument("target", nargs="?", choices=TARGETS)
    parser.add_argument("files", nargs="*")
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--keep", action="store_true")
    parser.add_argument("--minutes", type=float, default=10.0)
    asked = parser.parse_args(arguments)
    if not (asked.target or asked.all or asked.list):
        parser.error("name a target, or give --all or --list")
    return asked


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
