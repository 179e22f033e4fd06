"""A guided run of a target in a process of its own, and what came of it."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from tests.fuzz import corpus
from tests.fuzz.targets import load

SLOW_S = 20
"""An input that takes longer is a finding."""

MEMORY_MB_MAX = 2048
"""A process that grows beyond it is a finding."""

_GRACE_S = 120.0
_ROOT = Path(__file__).parents[2]
_PROGRAM = ("-m", "tests.fuzz.guided")


@dataclass(frozen=True, slots=True)
class Run:
    """What a run did. `features` is how much libFuzzer says it has reached, and `seconds` how long
    it says that it ran, which it does at its end alone.
    """

    target: str
    executions: int
    asked_s: int
    seconds: int
    code: int
    features: int
    findings: list[Path]
    output: str

    @property
    def shortfall(self) -> str | None:
        """Why the run does not count as one of so many minutes, if it does not.

        A process that was killed leaves no finding behind, and one that fell over an input that was
        kept before leaves no new one.
        """
        if self.code == 0 and self.seconds >= self.asked_s:
            return None
        return (
            f"ended early: exit code {self.code}, after {self.seconds} of {self.asked_s} s as "
            "libFuzzer counts them"
        )


def is_installed() -> bool:
    """Whether the long form can run here."""
    return importlib.util.find_spec("atheris") is not None


def why_not() -> str:
    """The line for whoever lacks atheris."""
    return (
        "guided runs need atheris, which has wheels for Linux on x86-64 alone: "
        ".venv/bin/pip install -e '.[fuzz]'; the short form in `make test` needs none"
    )


def guided_run(target: str, minutes: float, *, keeps: bool = False) -> Run:
    """Blocks for so long. Starts from seeds and corpus; takes what is new into it if asked to."""
    findings = corpus.FINDINGS / target
    findings.mkdir(parents=True, exist_ok=True)
    known = set(findings.iterdir())
    with tempfile.TemporaryDirectory() as made, tempfile.TemporaryDirectory() as seeds:
        for data in [*load(target).seeds(), *corpus.kept(target)]:
            corpus.keep(Path(seeds), data)
        seconds = max(1, round(minutes * 60))
        options = [made, seeds, f"-max_total_time={seconds}", f"-artifact_prefix={findings}/"]
        code, output = _guided(target, options, seconds + _GRACE_S)
        if keeps:
            _take(target, Path(made))
    executions = re.findall(r"^#(\d+)\s", output, re.MULTILINE)
    features = re.findall(r"\bft: (\d+)", output)
    done = re.findall(r"^Done \d+ runs in (\d+) second", output, re.MULTILINE)
    return Run(
        target,
        int(executions[-1]) if executions else 0,
        seconds,
        int(done[-1]) if done else 0,
        code,
        int(features[-1]) if features else 0,
        sorted(path for path in set(findings.iterdir()) - known if _is_finding(path)),
        output,
    )


def _is_finding(path: Path) -> bool:
    """libFuzzer also keeps inputs that took ten seconds, which on a busy machine says nothing."""
    return not path.name.startswith("slow-unit")


def _take(target: str, made: Path) -> None:
    """Of what reached something new, the smallest inputs that fit. libFuzzer has reduced them."""
    room = corpus.TARGET_BYTES_MAX - sum(map(len, corpus.kept(target)))
    for data in sorted((path.read_bytes() for path in made.iterdir()), key=len):
        room -= len(data)
        if room < 0:
            break
        corpus.keep(corpus.folder_of(target), data)


def _guided(target: str, options: list[str], timeout_s: float) -> tuple[int, str]:
    """The exit code, and what was printed."""
    command = [
        sys.executable,
        *_PROGRAM,
        target,
        *options,
        f"-max_len={corpus.INPUT_BYTES_MAX}",
        f"-timeout={SLOW_S}",
        f"-rss_limit_mb={MEMORY_MB_MAX}",
        "-print_final_stats=1",
    ]
    ended = subprocess.run(
        command,
        cwd=_ROOT,
        capture_output=True,
        timeout=timeout_s,
        check=False,
        text=True,
        errors="replace",
    )
    return ended.returncode, ended.stdout + ended.stderr
