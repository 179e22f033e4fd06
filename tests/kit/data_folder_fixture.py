"""Writes a whole data folder of the present version: `python -m tests.kit.data_folder_fixture`.

A backup of a Tally that counted a few events of every sort, packed, and what its counts must be, in
tests/fixtures/formats. As with all files there: made once for each version of the data folder, and
never again. tests/integration/backup/test_old_folder.py opens it.
"""

import contextlib
import json
import lzma
import sys
import time
import urllib.request
from pathlib import Path
from tempfile import TemporaryDirectory

from confluent_kafka.admin import (  # type: ignore[attr-defined]  # documented, though not in its __all__
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
)

from pipeline.local.data_folder import FORMAT
from tests.integration.backup.site import settle
from tests.integration.worker.events import Messages
from tests.integration.worker.stream import TOPIC, Sender
from tests.kit.format_fixtures import FOLDER
from tests.kit.tally import RunningTally, tally_up

SEED = 1
MESSAGES = 60
RULES = """
[default]
retention = { "1m" = "forever", "1h" = "forever", "1d" = "forever" }

[families.stock]
kind = "strict"

[families.tag]
kind = "sketched"
"""


def fill(tally: RunningTally, web: str) -> dict[str, object]:
    """Sends events and says what their counts are."""
    _keep_for_ever(tally.kafka)
    sender = Sender(tally.kafka)
    for family in ("views", "tag"):
        messages = Messages(family, SEED, keys=5)
        for _ in range(MESSAGES):
            sender.send(messages.next(int(time.time() * 1000)))
    sender.flush()
    for number, (op, amount) in enumerate([("increment", 10), ("decrement", 3)]):
        url = f"http://{web}/api/v1/counters/stock:shoes/{op}"
        name = "delta" if op == "increment" else "amount"
        body = json.dumps({name: amount, "id": f"order-{number}"}).encode()
        with urllib.request.urlopen(urllib.request.Request(url, body), timeout=60) as answer:
            assert json.loads(answer.read())["accepted"]
    tally.run("adjust", "views:adjusted", "--by", "5", "--who", "ada", "--why", "a test")
    settle(tally.kafka)
    truth = sender.truth
    views = {key: count for key, count in truth.windows.items() if key[0].startswith("views:")}
    totals = {name: n for name, n in truth.totals().items() if name.startswith("views:")}
    members: dict[str, set[str]] = {}
    for (counter, _, _), found in truth.members.items():
        members.setdefault(counter, set()).update(found)
    return {
        "windows": [[*key, count] for key, count in sorted(views.items())],
        "totals": {**totals, "views:adjusted": 5},
        "tags": sum(n for name, n in truth.totals().items() if name.startswith("tag:")),
        "uniques": {name: len(found) for name, found in members.items() if name in totals},
        "dead_letters": sorted(sender.bad_places),
        "strict": {"stock:shoes": 7},
    }


def _keep_for_ever(kafka: str) -> None:
    """A folder that is opened years later still has its log."""
    entry = ConfigEntry("retention.ms", "-1", incremental_operation=AlterConfigOpType.SET)
    change = ConfigResource("TOPIC", TOPIC, incremental_configs=[entry])
    admin = AdminClient({"bootstrap.servers": kafka})
    for done in admin.incremental_alter_configs([change]).values():
        done.result(10)


def main() -> int:
    target = FOLDER / f"data-folder-{FORMAT}.tar.xz"
    if target.exists():
        print(f"{target} is there: it is never made anew")
        return 1
    # The rules' note in ClickHouse names the file as the setting does: no path of this machine.
    with TemporaryDirectory() as name, contextlib.chdir(name):
        folder = Path(name)
        (folder / "tally.toml").write_text(RULES)
        with tally_up(folder, {"TALLY_CONFIG": "tally.toml"}) as tally:
            addresses = json.loads((folder / "data" / "addresses.json").read_text())
            counts = fill(tally, addresses["web"])
        tally.run("backup", str(folder / "backup.tar"), "--data", str(folder / "data"))
        target.write_bytes(lzma.compress((folder / "backup.tar").read_bytes()))
        target.with_name(f"data-folder-{FORMAT}.json").write_text(json.dumps(counts) + "\n")
    print(f"{target}: {target.stat().st_size} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
