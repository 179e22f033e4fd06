"""`tally advise`: which kind of counter fits, by questions or by options."""

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pipeline.advise.advice import SHARD_RATE_MAX, advise
from pipeline.advise.questions import QUESTIONS, Question, asked, next_question
from pipeline.cli.output import console, print_json
from pipeline.cli.printable import printable, write_line

if TYPE_CHECKING:
    from pipeline.advise.advice import Advice

_NAME_MAX_BYTES = 255


def _option(name: str) -> Any:
    question = next(one for one in QUESTIONS if one.name == name)
    values = " | ".join(question.choices)
    return typer.Option(f"--{name}", help=f"{question.text} {values}", metavar="CHOICE")


def register(app: typer.Typer) -> None:
    app.command("advise")(command)


def command(
    family: Annotated[str, typer.Argument(help="The family's name.")] = "my-counters",
    need: Annotated[str | None, _option("need")] = None,
    limit: Annotated[str | None, _option("limit")] = None,
    taken_back: Annotated[str | None, _option("taken-back")] = None,
    members: Annotated[str | None, _option("members")] = None,
    retries: Annotated[str | None, _option("retries")] = None,
    counters: Annotated[str | None, _option("counters")] = None,
    precision: Annotated[str | None, _option("precision")] = None,
    heat: Annotated[str | None, _option("heat")] = None,
    uniques: Annotated[str | None, _option("uniques")] = None,
    trends: Annotated[str | None, _option("trends")] = None,
    regions: Annotated[str | None, _option("regions")] = None,
    rate: Annotated[
        int, typer.Option(min=1, max=10**9, help="Increments a second of a hot counter.")
    ] = 4 * SHARD_RATE_MAX,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Which kind of counter fits: why, what it costs, and the settings for tally.toml.

    In a terminal it asks what no option answers; elsewhere, and with --json, the first choice of
    each question holds. Asks no server.

    Example: `tally advise likes --need who-is-in --taken-back yes --json`
    """
    _check_family(family)
    # fmt: off
    given = {
        "need": need, "limit": limit, "taken-back": taken_back, "members": members,
        "retries": retries, "counters": counters, "precision": precision, "heat": heat,
        "uniques": uniques, "trends": trends, "regions": regions,
    }
    # fmt: on
    answers = {name: value for name, value in given.items() if value is not None}
    for question in QUESTIONS:
        if question.name in answers and answers[question.name] not in question.choices:
            raise typer.BadParameter(
                f"--{question.name}: expected {' or '.join(question.choices)},"
                f" got {answers[question.name]!r}"
            )
    asks = not json and sys.stdin.isatty()
    taken: list[str] = []
    while (question_left := next_question(answers)) is not None:
        answers[question_left.name] = _ask(question_left) if asks else question_left.default
        if not asks:
            taken.append(question_left.name)
    matter = {question.name for question in asked(answers)}
    for name, value in given.items():
        if value is not None and name not in matter:
            raise typer.BadParameter(f"--{name} does not matter under the other answers")
    found = advise(family, answers, rate)
    if json:
        print_json(_document(found, {name: answers[name] for name in sorted(matter)}))
    else:
        _print(found, taken)


def _check_family(family: str) -> None:
    if not family or ":" in family or len(family.encode()) > _NAME_MAX_BYTES:
        raise typer.BadParameter("a family's name is 1 to 255 bytes without ':'")


def _ask(question: Question) -> str:
    """Asks until the answer is a choice, its number, or nothing, which is the first."""
    out = console()
    out.print(f"\n{question.text}")
    names = list(question.choices)
    for number, (name, meaning) in enumerate(question.choices.items(), start=1):
        out.print(f"  {number}  {name:<11} {meaning}")
    while True:
        answer: str = typer.prompt("  choose", default="1").strip()
        if answer in names:
            return answer
        if answer.isdecimal() and 1 <= int(answer) <= len(names):
            return names[int(answer) - 1]
        out.print(f"  expected 1 to {len(names)}")


def _document(advice: "Advice", answers: dict[str, str]) -> dict[str, Any]:
    return {
        "family": advice.family,
        "strategy": advice.strategy,
        "answers": answers,
        "reasons": advice.reasons,
        "costs": [{"cost": one.text, "source": one.source} for one in advice.costs],
        "settings": advice.toml,
        "steps": advice.steps,
    }


def _print(advice: "Advice", taken: list[str]) -> None:
    write_line(f"{printable(advice.family)}: {advice.strategy}")
    write_line("\nwhy")
    for reason in advice.reasons:
        write_line(f"  - {reason}")
    write_line("\nwhat it costs")
    for cost in advice.costs:
        write_line(f"  - {cost.text} ({cost.source})")
    write_line("\ntally.toml")
    for line in advice.toml.splitlines():
        write_line(f"  {line}")
    write_line("\nthen")
    for step in advice.steps:
        write_line(f"  - {printable(step)}")
    if taken:
        write_line(f"\ntaken for granted: {', '.join(taken)}; options answer them")
