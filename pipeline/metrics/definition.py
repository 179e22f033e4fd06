"""What a metric is: its name, its kind, its labels and its meaning. Pure; knows no library.

A metric is a typed constant, and is used by calling it with its labels: `ROWS()`, or
`DEAD_LETTERS(kind="too_late")`. That gives a series, which a Meter takes. So a name that does not
exist, a label that does not, a value outside of a closed set, and adding to a gauge are errors of
types before anything runs.
"""

from __future__ import annotations

import re
from typing import (
    TYPE_CHECKING,
    Any,
    Generic,
    Literal,
    NamedTuple,
    ParamSpec,
    get_args,
    get_origin,
    get_type_hints,
)

if TYPE_CHECKING:
    from collections.abc import Callable

P = ParamSpec("P")

Kind = Literal["counter", "gauge", "histogram"]

OPEN_VALUES_MAX = 200
"""How many values a label of free text may have in one process; what comes later is `other`."""

NUMBERS_MAX = 4096
"""How many values a label that is a number may have: as many as there may be partitions."""

OTHER = "other"

_NAME = re.compile(r"tally_[a-z][a-z0-9_]*[a-z0-9]")
_LABEL = re.compile(r"[a-z][a-z0-9_]*")
_RESERVED = ("_bucket", "_count", "_sum", "_created")
_UNITS = ("_seconds", "_bytes", "_ratio")
_NOT_LABELS = frozenset({"counter", "member", "region", "id", "le", "quantile"})
"""What has no bound must not be a label; and what Prometheus needs for itself."""


class Unlabelled(NamedTuple):
    """The labels of a metric that has none."""


class Label(NamedTuple):
    """A label's name, and its values if they are a closed set; else how many there may be."""

    name: str
    values: tuple[str, ...] | None
    values_max: int


class Definition(Generic[P]):
    """A metric. Raises ValueError, when it is made, for what Prometheus's conventions forbid.

    `labels` is a NamedTuple: its fields are the labels, and a field that is a Literal has these
    values only. `meaning` is one sentence, and becomes the metric's HELP.
    """

    kind: Kind

    def __init__(self, name: str, labels: Callable[P, tuple[object, ...]], meaning: str) -> None:
        self.name = name
        self.meaning = meaning
        self.labels = _labels(labels)
        self._make = labels
        self._check()

    def _check(self) -> None:
        if _NAME.fullmatch(self.name) is None or self.name.endswith(_RESERVED):
            raise ValueError(f"{self.name}: give tally_ and lower case, without {_RESERVED}")
        begins_well = self.meaning[:1].isupper() or self.meaning[:1].isdigit()
        if not begins_well or not self.meaning.endswith(".") or "\n" in self.meaning:
            raise ValueError(f"{self.name}: its meaning is one sentence, on one line")
        for label in self.labels:
            if _LABEL.fullmatch(label.name) is None or label.name in _NOT_LABELS:
                raise ValueError(f"{self.name}: {label.name} must not be a label")

    @property
    def label_names(self) -> tuple[str, ...]:
        """The labels, in the order of a series' values."""
        return tuple(label.name for label in self.labels)

    @property
    def sample_names(self) -> tuple[str, ...]:
        """Under which names its values are exposed."""
        return (self.name,)

    def values_of(self, series: Series) -> tuple[str, ...]:
        """The labels' values as text. Raises ValueError for one that is not in its closed set."""
        values = tuple(str(value) for value in series.labels)
        for label, value in zip(self.labels, values, strict=True):
            if label.values is not None and value not in label.values:
                raise ValueError(f"{self.name}: {label.name} is one of {label.values}, not {value}")
        return values

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name})"


class Series(NamedTuple):
    """One metric with the values of its labels."""

    definition: Definition[...]
    labels: tuple[object, ...]


class CounterSeries(Series):
    """A series that only grows."""

    __slots__ = ()


class GaugeSeries(Series):
    """A series that goes up and down."""

    __slots__ = ()


class HistogramSeries(Series):
    """A series of observations, by bucket."""

    __slots__ = ()


class Counter(Definition[P]):
    """What only grows while the process runs; its name ends with `_total`."""

    kind = "counter"

    def __call__(self, *labels: P.args, **named: P.kwargs) -> CounterSeries:
        """Its series with these labels. Never raises for labels that are typed right."""
        return CounterSeries(self, self._make(*labels, **named))

    def _check(self) -> None:
        super()._check()
        if not self.name.endswith("_total"):
            raise ValueError(f"{self.name}: a counter's name ends with _total")


class Gauge(Definition[P]):
    """What goes up and down."""

    kind = "gauge"

    def __call__(self, *labels: P.args, **named: P.kwargs) -> GaugeSeries:
        """Its series with these labels. Never raises for labels that are typed right."""
        return GaugeSeries(self, self._make(*labels, **named))

    def _check(self) -> None:
        super()._check()
        if self.name.endswith("_total"):
            raise ValueError(f"{self.name}: only a counter's name ends with _total")


class Histogram(Definition[P]):
    """Observations by bucket: `buckets` are their upper bounds; the last one has none."""

    kind = "histogram"

    def __init__(
        self,
        name: str,
        labels: Callable[P, tuple[object, ...]],
        meaning: str,
        buckets: tuple[float, ...],
    ) -> None:
        self.buckets = buckets
        super().__init__(name, labels, meaning)

    def __call__(self, *labels: P.args, **named: P.kwargs) -> HistogramSeries:
        """Its series with these labels. Never raises for labels that are typed right."""
        return HistogramSeries(self, self._make(*labels, **named))

    @property
    def sample_names(self) -> tuple[str, ...]:
        return tuple(f"{self.name}{suffix}" for suffix in ("_bucket", "_count", "_sum"))

    def _check(self) -> None:
        super()._check()
        if not self.name.endswith(_UNITS):
            raise ValueError(f"{self.name}: a histogram's name ends with its unit, {_UNITS}")
        if not self.buckets or list(self.buckets) != sorted(set(self.buckets)):
            raise ValueError(f"{self.name}: its buckets must grow")


AnyDefinition = Counter[Any] | Gauge[Any] | Histogram[Any]


def _labels(of: Callable[..., tuple[object, ...]]) -> tuple[Label, ...]:
    return tuple(_label(name, kind) for name, kind in get_type_hints(of).items())


def _label(name: str, kind: object) -> Label:
    if get_origin(kind) is Literal:
        values = tuple(map(str, get_args(kind)))
        return Label(name, values, len(values))
    return Label(name, None, NUMBERS_MAX if kind is int else OPEN_VALUES_MAX)
