"""Retention apart from the other rules of families: as a document, and what changes in it. Pure."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from pydantic import ValidationError

from pipeline.control.rules_diff import Difference
from pipeline.errors import OperatorError
from schemas.families import Families
from schemas.rules import GRAINS, Family, format_duration

if TYPE_CHECKING:
    from schemas.rules import Grain, Retention


def kept_by(families: Families) -> Families:
    """Only what the families' retention is: equal where the same windows are kept as long.

    A family that keeps what the default keeps is not named.
    """
    default = families.default.retention
    return Families(
        default=Family(retention=default),
        families={
            name: Family(retention=family.retention)
            for name, family in families.families.items()
            if family.retention != default
        },
    )


def retention_document(families: Families) -> str:
    """The families' retention as JSON, in the words of `tally.toml`; the same text for the same."""
    kept = kept_by(families)
    return json.dumps(
        {
            "default": _texts(kept.default.retention),
            "families": {
                name: _texts(kept.families[name].retention) for name in sorted(kept.families)
            },
        }
    )


def parse_retention(document: str) -> Families:
    """What `retention_document` wrote. Raises OperatorError for anything else."""
    try:
        found = json.loads(document)
        return Families.model_validate(
            {
                "default": {"retention": found["default"]},
                "families": {
                    name: {"retention": retention} for name, retention in found["families"].items()
                },
            }
        )
    except (ValueError, TypeError, KeyError, AttributeError, ValidationError) as error:
        reason = " ".join(str(error).split())[:200]
        raise OperatorError(
            f"tally.retention has a row that is no retention ({reason}); a newer Tally may have "
            "written it: use that one"
        ) from error


def retention_settings(families: Families) -> dict[str, str]:
    """The settings as `tally.toml` writes them, each family's in full."""
    kept = kept_by(families)
    found = _settings("default", kept.default.retention)
    for name in sorted(kept.families):
        found |= _settings(f"families.{name}", kept.families[name].retention)
    return found


def retention_differences(before: Families, after: Families) -> list[Difference]:
    """Every setting of retention that is not the same in both."""
    names = sorted({*kept_by(before).families, *kept_by(after).families})
    places = [("default", before.default, after.default)] + [
        (
            f"families.{name}",
            before.families.get(name, before.default),
            after.families.get(name, after.default),
        )
        for name in names
    ]
    found = []
    for place, was, will_be in places:
        old, new = _settings(place, was.retention), _settings(place, will_be.retention)
        found += [Difference(name, old[name], new[name]) for name in old if old[name] != new[name]]
    return found


def _settings(place: str, retention: Retention) -> dict[str, str]:
    return {f"{place}.retention.{grain}": text for grain, text in _texts(retention).items()}


def _texts(retention: Retention) -> dict[Grain, str]:
    kept_ms = (retention.minute_ms, retention.hour_ms, retention.day_ms)
    return {
        grain: "forever" if each_ms is None else format_duration(each_ms)
        for grain, each_ms in zip(GRAINS, kept_ms, strict=True)
    }
