"""The tree: which question comes next, given the answers so far. Pure.

A question has few choices, each with what it means; the first is what holds where nobody answers.
To ask something new, add a Question, its place in `next_question`, and what follows from it in
pipeline/advise/advice.py; a test walks the whole tree.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


@dataclass(frozen=True, slots=True)
class Question:
    """One question: its name is the option's, its choices are the option's values."""

    name: str
    text: str
    choices: Mapping[str, str]

    @property
    def default(self) -> str:
        return next(iter(self.choices))


NEED = Question(
    "need",
    "What must the number tell?",
    {
        "how-often": "how often something happened: views, hashtags, requests, money",
        "who-is-in": "how many members are in, each once: likes, followers, votes",
        "never-over": "never more than there is or than is allowed: stock, quotas, rate limits",
    },
)
LIMIT = Question(
    "limit",
    "Over what must it never be?",
    {
        "stock": "what there is: it is filled and taken from",
        "per-period": "so many in each minute, hour or day",
        "any-period": "so many in any minute, hour or day, also across the edge of two",
    },
)
TAKEN_BACK = Question(
    "taken-back",
    "Can a member be taken out again?",
    {"yes": "as a like is taken back", "no": "once in, in for ever"},
)
MEMBERS = Question(
    "members",
    "May a new member be missed now and then?",
    {"exact": "no: each one counts", "filter": "one in a thousand may be, to save memory"},
)
RETRIES = Question(
    "retries",
    "Can the same event arrive twice?",
    {
        "no": "no, or Tally's own producer sends it, which takes care of its retries",
        "yes": "yes: clients or queues before Kafka send again",
    },
)
COUNTERS = Question(
    "counters",
    "How many different counters of the family change within a minute?",
    {
        "thousands": "up to some hundred thousand",
        "millions": "millions: words, addresses, pairs of things",
    },
)
PRECISION = Question(
    "precision",
    "Must each of these many counters be exact?",
    {
        "exact": "yes",
        "estimate": "no: the great ones matter, with bounds",
    },
)
HEAT = Question(
    "heat",
    "Which counters are hot, above 10,000 increments a second?",
    {
        "some": "none, or now and then one, and nobody knows which",
        "known": "one that is known beforehand: a launch, a match",
        "all": "every counter of the family, always",
    },
)
UNIQUES = Question(
    "uniques",
    "Should it tell how many different members there were?",
    {
        "hours": "yes, by the hour and the day",
        "minutes": "yes, by the minute, too",
        "no": "no",
    },
)
TRENDS = Question(
    "trends",
    "Should it find what is trending?",
    {"yes": "yes", "no": "no: only the greatest, or neither"},
)
REGIONS = Question(
    "regions",
    "Should counts be told by region?",
    {"yes": "yes", "no": "no"},
)

# fmt: off
QUESTIONS = (
    NEED, LIMIT, TAKEN_BACK, MEMBERS, RETRIES, COUNTERS, PRECISION, HEAT, UNIQUES, TRENDS, REGIONS,
)
# fmt: on

_ASKED_OF = {
    "never-over": {"limit"},
    # Members spread a counter over partitions by themselves, and their repeats count for nothing;
    # the size of their set is its own distinct count.
    "who-is-in": {"taken-back", "members", "trends", "regions"},
    "how-often": {
        "retries",
        "counters",
        "precision",
        "heat",
        "uniques",
        "trends",
        "regions",
    },
}
"""Which questions matter for what is needed."""


def asked(answers: Mapping[str, str]) -> Iterator[Question]:
    """The questions that matter under these answers, in order, up to the first that is open.

    An answer that is missing ends it after its question; a caller adds it and asks again.
    """
    for question in QUESTIONS:
        if not _matters(question, answers):
            continue
        yield question
        if question.name not in answers:
            return


def next_question(answers: Mapping[str, str]) -> Question | None:
    """The first question that matters and has no answer; None when all is known."""
    return next((one for one in asked(answers) if one.name not in answers), None)


def _matters(question: Question, answers: Mapping[str, str]) -> bool:
    if question is NEED:
        return True
    need = answers[NEED.name]
    if question.name not in _ASKED_OF[need]:
        return False
    if question is MEMBERS:
        # Nobody can be taken out of a filter.
        return answers[TAKEN_BACK.name] == "no"
    return question is not PRECISION or answers[COUNTERS.name] == "millions"
