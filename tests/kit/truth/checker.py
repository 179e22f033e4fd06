"""The truth checker: the senders' record beside the log, ClickHouse and the web API."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.kit.truth import in_clickhouse, letters, over_web, quotas, strict
from tests.kit.truth.asking import Webs
from tests.kit.truth.differences import Difference
from tests.kit.truth.expected import Expected
from tests.kit.truth.in_log import read_commands, read_letters, read_log, settle_unknown
from tests.kit.truth.kinds import ONCE, SKETCHED, family_of, summed
from tests.kit.truth.ledger import Decisions
from tests.kit.truth.once import decided, settle_once
from tests.kit.truth.record import Record
from tests.kit.truth.sketched import Sketched

SHOWN = 10
SAMPLES = {1_000: None, 40_000: 10}
"""Up to so many increments, so many questions of each kind and grain go to the web API: of a small
run all, of one of some minutes a hundred and seventy altogether, so that it is quick."""

SAMPLE_OF_MORE = 60
"""After half an hour there are too many for all. ClickHouse is asked for every number anyway."""


@dataclass
class Verdict:
    """What was compared and what was found wrong; nothing wrong means every number is true."""

    sent: int = 0
    acknowledged: int = 0
    found_in_log: int = 0
    """Of what nobody heard of, how many the log has nevertheless."""

    not_in_log: int = 0
    counters: int = 0
    windows: int = 0
    estimated: int = 0
    """Counters of sketched families."""

    once: int = 0
    """Increments that count, of families that count once per member; and those that do not."""

    repeats: int = 0
    adjusted: int = 0
    """Additive corrections that the log has."""

    decided: int = 0
    """Commands of strict counters, and how many of them were refused."""

    refused: int = 0
    asked: int = 0
    """Questions to the web API, and how many there are to ask."""

    questions: int = 0
    differences: list[Difference] = field(default_factory=list)

    def __str__(self) -> str:
        kinds = Counter(one.kind for one in self.differences)
        places = Counter((one.kind, one.where[:80]) for one in self.differences)
        sent = f"{self.sent:,} increments sent, {self.acknowledged:,} acknowledged; of the others"
        return "\n".join(
            (
                f"{sent} the log has {self.found_in_log:,} and has not {self.not_in_log:,}",
                f"{self.counters:,} counters, {self.windows:,} minutes of them in regions",
                (
                    f"{self.estimated:,} sketched counters; once per member {self.once:,} and "
                    f"{self.repeats:,} repeats; {self.adjusted:,} adjustments; {self.decided:,} "
                    f"strict commands decided, {self.refused:,} of them refused"
                ),
                f"{self.asked:,} of {self.questions:,} questions to the web API asked",
                ", ".join(f"{kinds[kind]} {kind}" for kind in ("lost", "doubled", "misplaced"))
                + f"; {len(self.differences)} differences in all",
                *(f"{count} {kind}: {where}" for (kind, where), count in sorted(places.items())),
                *map(str, self.differences[:SHOWN]),
            )
        )


def check(
    journals: Iterable[Path],
    kafka: str,
    clickhouse: str | None,
    webs: Sequence[str] = (),
    ledgers: Iterable[Path] = (),
) -> Verdict:
    """Compare everything, once all that is in the log was counted. Blocks for long.

    Raises what keeps it from asking; a wrong answer is no error but a difference.
    """
    record, decisions = Record.of(journals), Decisions.of(ledgers)
    logged = read_log(kafka)
    counted, wrong = settle_unknown(record, logged)
    wrong += settle_once(record, logged.once)
    refused, wrong_letters = letters.refused_in_log(record, logged.refusable)
    wrong += wrong_letters
    added = [summed(one) for one in counted if family_of(one) not in ONCE]
    once = decided(logged.once)
    adjustments = logged.adjustments.values()
    expected, sketched = Expected([*added, *once], adjustments), Sketched(counted, logged.sketched)
    # The web API has no windows in which there were repeats alone, and takes no family's sum.
    asked = Expected(
        [one for one in [*added, *once] if one["delta"] and family_of(one) not in SKETCHED],
        adjustments,
    )
    verdict = Verdict(
        sent=len(record.acknowledged) + len(record.unknown),
        acknowledged=len(record.acknowledged),
        found_in_log=len(counted) - len(record.acknowledged),
        counters=len(expected.counters()),
        windows=sum(1 for _, region, _ in expected.counts("1m") if region != "*"),
        estimated=len(sketched.counters()),
        once=sum(1 for one in once if one["delta"]),
        repeats=sum(1 for one in once if not one["delta"]),
        adjusted=len(adjustments),
        decided=len(decisions.commands),
        refused=sum(1 for answers in decisions.answers if answers and not answers[0].accepted),
    )
    verdict.not_in_log = len(record.unknown) - verdict.found_in_log
    verdict.differences += [Difference("log", text, (), None, None) for text in wrong]
    commands = read_commands(kafka)
    verdict.differences += strict.differences(decisions, commands)
    verdict.differences += quotas.differences(decisions, commands)
    verdict.differences += letters.in_topic(refused, read_letters(kafka))
    if clickhouse is not None:
        verdict.differences += in_clickhouse.differences(
            clickhouse, expected, refused, sketched, decisions
        )
    if webs:
        seed = f"{verdict.sent} {verdict.windows}"
        processes = Webs(webs, sample_of(verdict.sent), seed)
        verdict.differences += over_web.differences(processes, asked, sketched, decisions)
        verdict.asked, verdict.questions = processes.asked, processes.known
    return verdict


def sample_of(sent: int) -> int | None:
    """How many questions of each kind and grain are asked after so many increments; None: all."""
    return next((most for up_to, most in SAMPLES.items() if sent <= up_to), SAMPLE_OF_MORE)
