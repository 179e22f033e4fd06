"""Increments sent over the web API, one by one and many at once, to whichever process answers."""

import json
import random
from collections.abc import Iterable, Mapping, Sequence
from urllib.parse import quote

import httpx

from tests.kit.truth.record import Document

TIMEOUT_S = 5.0
ONE_BY_ONE = 4


class OverWeb:
    """A Way. Whatever the answer was, with an id it is safe to send again."""

    all_need_ids = True
    all_have_marks = True
    sends_refusable = False

    def __init__(self, urls: Sequence[str]) -> None:
        self._clients = [httpx.Client(base_url=url, timeout=TIMEOUT_S) for url in urls]
        self._known: list[int] = []
        self._chance = random.Random(len(urls))

    def send(self, documents: Mapping[int, Document]) -> None:
        client = self._chance.choice(self._clients)
        numbers = list(documents)
        for number in numbers[:ONE_BY_ONE]:
            fields = dict(documents[number])
            path = f"/api/v1/counters/{quote(fields.pop('counter'), safe='')}/increment"
            if self._answer(client, path, json.dumps(fields)):
                self._known.append(number)
        if rest := numbers[ONE_BY_ONE:]:
            lines = "\n".join(json.dumps(documents[number]) for number in rest)
            answer = self._answer(client, "/api/v1/increments", lines)
            if answer and answer["accepted"] == len(rest):
                self._known += rest

    def send_refusable(self, number: int, text: str) -> None:
        raise NotImplementedError("the web API refuses it itself")

    def acknowledged(self, timeout_s: float) -> Iterable[int]:  # noqa: ARG002 - nothing to wait for
        taken, self._known = self._known, []
        return taken

    def is_idle(self) -> bool:
        return True

    def not_stored(self) -> Iterable[int]:
        return ()

    def _answer(self, client: httpx.Client, path: str, body: str) -> Document:
        """The document; empty where nobody answered, not with success, or not as a whole."""
        try:
            answer = client.post(path, content=body)
        except httpx.HTTPError:
            return {}
        if answer.status_code == httpx.codes.UNPROCESSABLE_ENTITY:
            print(f"refused: {answer.text[:300]}", flush=True)
        if answer.status_code != httpx.codes.OK:
            return {}
        try:
            document: Document = answer.json()
        except ValueError:  # Torn on its way: nobody knows what it said.
            return {}
        return document
