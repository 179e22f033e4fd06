"""What is said of other clusters whose cells are here."""

from pipeline.cli.status import _lines
from pipeline.reads.health import judge
from pipeline.reads.observed import Observed
from pipeline.reads.senders import SILENT_MS_MAX, Sender, sender_remarks


def test_a_cluster_that_is_silent_is_remarked() -> None:
    fine = Sender("a", 1, SILENT_MS_MAX, 900)
    silent = Sender("b", 1, 2 * SILENT_MS_MAX, 900)
    [remark] = sender_remarks([fine, silent])
    assert remark.startswith("nothing came from cluster b for 20m")


def test_status_has_a_line_for_each() -> None:
    status = judge(Observed(0, {}, {}, senders=[Sender("a", 1, 1_500, 62_000)]))
    assert [line for line in _lines(status) if line.startswith("cluster")] == [
        "cluster      a: last exchange 1.5 s ago, 62 s behind its log"
    ]
