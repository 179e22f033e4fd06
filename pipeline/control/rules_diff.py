"""In what two sets of counting rules differ, in the words of `tally.toml`. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import msgspec

from schemas.rules import format_duration

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pipeline.rules import CountingRules, FamilyRules, StrictRules

_NAMED, _UNNAMED = "named", "not named"


class Difference(NamedTuple):
    """One setting that is not the same: what it was, and what it would be."""

    setting: str
    before: str
    after: str

    def line(self) -> str:
        """For people."""
        return f"{self.setting}: {self.before} -> {self.after}"


def differences(before: CountingRules, after: CountingRules) -> list[Difference]:
    """Every setting that decides counting and is not the same in both.

    What a family was or will be without being named is what the default says; being named at all is
    a difference of its own, since a named family has a cap of cells for itself.
    """
    names = sorted({*before.families, *after.families})
    found = _changed(_top(before), _top(after))
    for name in names:
        place = f"families.{name}"
        found += _changed(
            {place: _NAMED if name in before.families else _UNNAMED}
            | _family(place, before.families.get(name, before.default)),
            {place: _NAMED if name in after.families else _UNNAMED}
            | _family(place, after.families.get(name, after.default)),
        )
    return found


def settings_of(rules: CountingRules) -> dict[str, str]:
    """The settings as `tally.toml` writes them, each family's in full."""
    found = _top(rules)
    for name in sorted(rules.families):
        found |= _family(f"families.{name}", rules.families[name])
    return found


def in_one_line(found: Sequence[Difference], at_most: int = 3) -> str:
    """The first few differences, and how many more there are."""
    shown = "; ".join(difference.line() for difference in found[:at_most])
    return shown if len(found) <= at_most else f"{shown}; and {len(found) - at_most} more"


def _changed(old: dict[str, str], new: dict[str, str]) -> list[Difference]:
    return [Difference(name, old[name], new[name]) for name in old if old[name] != new[name]]


def _top(rules: CountingRules) -> dict[str, str]:
    return {"ids_per_partition": str(rules.ids_limit)} | _family("default", rules.default)


def _family(place: str, rules: FamilyRules) -> dict[str, str]:
    return {
        f"{place}.lateness": format_duration(rules.lateness_ms),
        f"{place}.regions": str(rules.regions).lower(),
        f"{place}.ids.horizon": format_duration(rules.ids_horizon_ms),
        f"{place}.cells_max": str(rules.cells_max),
        f"{place}.kind": _kind(rules),
        f"{place}.sketch.error": f"{rules.sketch_error:g}",
        f"{place}.sketch.keys": str(rules.sketch_keys),
        f"{place}.distinct.precision": str(rules.distinct_precision or "off"),
        f"{place}.distinct.grains": ",".join(rules.distinct_grains),
        **{
            f"{place}.trends.{name}": msgspec.json.encode(value).decode()
            for name, value in msgspec.structs.asdict(rules.trends).items()
        },
        f"{place}.shards": str(rules.shards or "adaptive"),
        f"{place}.once_per": "member" if rules.once_per_member else "id",
        f"{place}.once_per_error": f"{rules.once_per_error:g}",
        **_strict(place, rules.strict),
    }


def _kind(rules: FamilyRules) -> str:
    if rules.strict is not None:
        return "strict"
    return "sketched" if rules.sketched else "exact"


def _strict(place: str, rules: StrictRules | None) -> dict[str, str]:
    """Of a family that is not strict, what it would have said is nothing."""
    window_ms = rules.window_ms if rules else None
    return {
        f"{place}.strict.window": rules.window if rules else "none",
        f"{place}.strict.limit": str((rules and rules.limit) or "none"),
        f"{place}.strict.per": format_duration(window_ms) if window_ms else "none",
        f"{place}.strict.ids_kept": str(rules.ids_kept if rules else "none"),
    }
