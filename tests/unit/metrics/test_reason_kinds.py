"""Every reason that the pipeline gives has a kind of its own sort; what is unknown is `other`."""

import numpy as np
import pytest

from pipeline.adjustments.placed import placed_adjustments
from pipeline.decode import Control, decode
from pipeline.errors import BadInputError
from pipeline.placing import EARLY_REASON, OVERFLOW_REASON, late_reason
from pipeline.reason_kinds import REASON_KINDS, kind_of
from pipeline.rules import parse_rules
from pipeline.writes.set_aside import cell_letters
from schemas.adjustments import ADJUSTMENT_KIND
from schemas.frames import FRAME_CONTENT_TYPE, encode_frame
from schemas.records import Headers, Records

FRAME: Headers = (("content-type", FRAME_CONTENT_TYPE.encode()),)


def reason(value: bytes | None, headers: Headers = ()) -> str:
    """Why the decoder refuses this record."""
    one = np.array([1_760_000_000_000])
    records = Records(0, np.array([7]), one, [None], [value], [headers])
    [refused] = decode(records).refused
    return refused.reason


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (b"nope", "not_json"),
        (b"", "not_json"),
        (b"[]", "not_json"),
        (b"\xff", "not_json"),
        (b'{"counter": "a:b"} {}', "not_json"),
        (b"{}", "counter"),
        (b'{"counter": "likes", "delta": 0}', "counter"),
        (b'{"counter": "a:b", "delta": 0}', "delta"),
        (b'{"counter": "a:b", "at": "soon"}', "at"),
        (b'{"counter": "a:b", "member": ""}', "member"),
        (b'{"counter": "a:b", "region": "*"}', "region"),
        (b'{"counter": "a:b", "id": ""}', "id"),
        (None, "tombstone"),
    ],
)
def test_what_the_decoder_refuses_has_the_kind_of_its_first_mistake(
    value: bytes | None, kind: str
) -> None:
    assert kind_of(reason(value)) == kind


def test_a_frame_that_cannot_be_read_is_of_the_kind_frame() -> None:
    assert kind_of(reason(b"no frame", FRAME)) == "frame"
    assert kind_of("member: the column is int64; give text") == "frame"


def test_a_row_of_a_frame_has_the_kind_of_its_field() -> None:
    assert kind_of(reason(encode_frame({"counter": ["a:b"], "delta": [0]}), FRAME)) == "delta"


def test_a_bad_retry_is_of_the_kind_retry() -> None:
    assert kind_of(reason(b'{"counter": "a:b"}', (("tally-retry", b"nowhere"),))) == "retry"


def test_what_log_time_and_cells_refuse_has_kinds_of_its_own() -> None:
    assert kind_of(late_reason(86_400_000)) == "too_late"
    assert kind_of(EARLY_REASON) == "too_early"
    assert kind_of(OVERFLOW_REASON) == "overflow"


def test_control_records_that_cannot_be_read_are_told_apart() -> None:
    with pytest.raises(BadInputError) as bad:
        parse_rules(b"nope")
    assert kind_of(str(bad.value)) == "rules"
    control = [Control(7, 0, ADJUSTMENT_KIND, None, b"nope")]
    records = Records(0, np.array([7]), np.array([0]), [None], [b"nope"], [()])
    _, [refused] = placed_adjustments(control, records, 0)
    assert kind_of(refused.reason) == "adjustment"


def test_what_clickhouse_says_is_not_part_of_the_kind() -> None:
    assert cell_letters([], []) == []
    assert kind_of("ClickHouse refused this cell: Code 469, at 2026-01-01") == "clickhouse"
    assert kind_of("ClickHouse refused this row of tally.heavy_1m: no") == "clickhouse"


def test_an_unknown_reason_is_other_and_the_set_is_small() -> None:
    assert kind_of("something new") == "other"
    assert kind_of("") == "other"
    assert len(REASON_KINDS) < 20
