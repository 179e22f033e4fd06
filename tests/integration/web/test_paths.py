"""Every path answers, and with the numbers that the commands have."""

import io
import json
import random
import signal
import socket
import time
from typing import Any

import pyarrow.csv as pa_csv
import pyarrow.parquet as pa_parquet

from tests.integration.web.conftest import Site
from tests.kit.processes import wait_until

AGES = ("as_of", "staleness_ms", "mode", "since")


def ageless(document: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in document.items() if name not in AGES}


def get(site: Site, path: str, **parameters: Any) -> Any:
    answer = site.web.client.get(path, params=parameters)
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_every_path_answers_as_the_command_does(site: Site) -> None:
    client = site.web.client
    events = [
        {"counter": f"posts:{key}", "delta": delta, "member": f"m{delta}", "region": region}
        for key, delta, region in [("a", 3, "eu"), ("a", 2, "us"), ("b", 9, "eu"), ("c/d", 1, "")]
    ]
    body = "".join(json.dumps(event) + "\n" for event in events)
    sent = client.post("/api/v1/increments", content=body).json()
    assert (sent["accepted"], sent["refused"], sent["reasons"]) == (4, 0, [])
    after = sent["receipt"]
    read = get(site, "/api/v1/counters/posts:a", after=after)
    assert ageless(read) == ageless(site.tally.json("count", "posts:a"))
    assert ageless(get(site, "/api/v1/counters/posts:a")) == ageless(read)
    region = get(site, "/api/v1/counters/posts:a/exact", region="eu")
    assert ageless(region) == ageless(site.tally.json("count", "posts:a", "--region", "eu"))
    assert region["total"] == 3
    live = get(site, "/api/v1/counters/posts:a/live")
    assert (live["total"], live["mode"], live["complete"]) == (5, "live", True)
    for by in ("1m", "1h", "1d"):
        windows = get(site, "/api/v1/counters/posts:a/windows", by=by)
        assert ageless(windows) == ageless(site.tally.json("count", "posts:a", "--by", by))
    uniques = get(site, "/api/v1/counters/posts:a/uniques", also="posts:b")
    told = site.tally.json("unique", "posts:a", "posts:b")
    assert ageless(uniques) == ageless(told)
    top = get(site, "/api/v1/families/posts/top", k=2, region="eu")
    told = site.tally.json("top", "posts", "-k", "2", "--region", "eu")
    assert ageless(top) == ageless(told)
    assert [row["counter"] for row in top["top"]] == ["posts:b", "posts:a"]
    trending = get(site, "/api/v1/families/posts/trending")
    assert ageless(trending) == ageless(site.tally.json("trending", "posts"))
    many = get(site, "/api/v1/counters", counter=["posts:a", "posts:c/d", "posts:none"])
    assert [one["total"] for one in many["counters"]] == [5, 1, 0]
    assert get(site, "/api/v1/counters/posts:c%2Fd")["total"] == 1
    assert get(site, "/api/v1/counters/posts:c/d")["total"] == 1
    site.send("shares:a", delta=4)
    keys = get(site, "/api/v1/keys/a")
    assert {"posts:a": 5}.items() <= {
        one["counter"]: one["total"] for one in keys["counters"]
    }.items()
    assert "posts" in get(site, "/api/v1/families")["families"]
    site.tally.healthy_status()
    wait_until(lambda: client.get("/health").status_code == 200, "it is well here, too")
    assert get(site, "/health")["healthy"] is True
    assert get(site, "/api/v1/status")["healthy"] is True
    assert "tally_web_requests_total" in client.get("/metrics").text
    assert client.get("/docs").status_code == 200
    assert "/api/v1/increments" in client.get("/openapi.json").json()["paths"]
    hinted = client.post("/api/v1/counters/posts:a/shards", json={"n": 2})
    assert (hinted.status_code, hinted.content) == (204, b"")
    assert client.get("/api/v1/families/nobody/top").status_code == 404
    assert client.get("/nothing").json() == {"error": "there is no such path: /docs lists them"}


def test_a_receipt_sees_its_increment_and_one_of_the_future_is_not_counted_yet(site: Site) -> None:
    for number in range(1, 6):
        receipt = site.send("receipts:x", web=number % 2, delta=2)
        path = ("/api/v1/counters/receipts:x", "/api/v1/counters/receipts:x/exact")[number % 2]
        assert get(site, path, after=receipt)["total"] == 2 * number
        windows = get(site, "/api/v1/counters/receipts:x/windows", after=receipt)
        assert sum(row["count"] for row in windows["windows"]) == 2 * number
    answer = site.web.client.get(
        "/api/v1/counters/receipts:x/exact", params={"after": "0:999999", "wait": 0.1}
    )
    assert answer.status_code == 412
    assert "not counted within 0.1 s: shard 0 is at " in answer.json()["error"]


def test_refused_events_are_answered_with_their_reason_and_nothing_is_written(site: Site) -> None:
    client = site.web.client
    receipt = site.send("refused:x")
    assert get(site, "/api/v1/counters/refused:x", after=receipt)["total"] == 1
    old_ms, future_ms = 5, int(time.time() * 1000) + 3_600_000
    for body, reason in [
        ({"delta": 0}, "delta: 0 is not allowed"),
        ({"at": old_ms}, "at: more than 86400 s ago, too late"),
        ({"at": future_ms}, "at: more than 300 s ahead"),
        ({"region": "*"}, "region: '*' means all regions and is only for queries"),
    ]:
        answer = client.post("/api/v1/counters/refused:x/increment", json=body)
        assert (answer.status_code, answer.json()) == (422, {"error": reason})
    lines = f'{{"counter":"refused:y"}}\n\nnope\n{{"counter":"refused:x","at":{future_ms}}}\n\n7\n'
    sent = client.post("/api/v1/increments", content=lines).json()
    assert (sent["accepted"], sent["refused"]) == (1, 3)
    assert sent["reasons"] == [
        {"line": 3, "reason": "not JSON"},
        {"line": 4, "reason": "at: more than 300 s ahead"},
        {"line": 6, "reason": "not a JSON object"},
    ]
    none = client.post("/api/v1/increments", content=b"nope\n").json()
    assert (none["accepted"], none["receipt"]) == (0, "")
    assert get(site, "/api/v1/counters/refused:y", after=sent["receipt"])["total"] == 1
    assert get(site, "/api/v1/counters/refused:x/exact")["total"] == 1
    refused = "SELECT count() FROM tally.dead_letters WHERE position(sample, 'refused:') > 0"
    assert site.tally.rows(refused) == [(0,)]


def test_files_have_the_windows_of_the_document(site: Site) -> None:
    now_ms = int(time.time() * 1000)
    receipts = [
        site.send("files:x", delta=number, at=now_ms - number * 60_000) for number in range(1, 6)
    ]
    for receipt in receipts:
        document = get(site, "/api/v1/counters/files:x/windows", after=receipt, by="1m")
    rows = [(row["window"], row["count"]) for row in document["windows"]]
    assert sum(count for _, count in rows) == 15
    path = "/api/v1/counters/files:x/windows"
    csv = site.web.client.get(path, headers={"Accept": "text/csv"})
    read = pa_csv.read_csv(
        io.BytesIO(csv.content),
        convert_options=pa_csv.ConvertOptions(timestamp_parsers=["%Y-%m-%dT%H:%M:%SZ"]),
    )
    parquet = site.web.client.get(path, params={"format": "parquet"})
    stored = pa_parquet.read_table(io.BytesIO(parquet.content))
    for table in (read, stored):
        assert table["counter"].to_pylist() == ["files:x"] * len(rows)
        times = [one.strftime("%Y-%m-%dT%H:%M:%SZ") for one in table["window"].to_pylist()]
        assert list(zip(times, table["count"].to_pylist(), strict=True)) == rows
    assert csv.headers["tally-complete"] == "true"


def test_what_did_not_change_is_not_sent_again(site: Site) -> None:
    get(site, "/api/v1/counters/tags:x", after=site.send("tags:x"))
    path = "/api/v1/counters/tags:x/exact"
    first = site.web.client.get(path)
    again = site.web.client.get(path, headers={"If-None-Match": first.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    receipt = site.send("tags:x")
    changed = site.web.client.get(
        path, params={"after": receipt}, headers={"If-None-Match": first.headers["etag"]}
    )
    assert (changed.status_code, changed.json()["total"]) == (200, 2)


def test_a_session_never_goes_backwards_whichever_process_answers(site: Site) -> None:
    """Additions and removals, two processes in turn: every read has all that an earlier one had.

    Increments are +1, -2, +3, -4, ...: their sums are 1, -1, 2, -2, ..., each of which tells how
    many were counted.
    """
    seed = random.randrange(10_000)
    print(f"seed {seed}")
    chance = random.Random(seed)
    sent, session, seen = 0, "", 0
    began_s = time.monotonic()
    # For some seconds, and on a busy machine until enough was seen to tell.
    while (took_s := time.monotonic() - began_s) < 6 or (seen <= 10 and took_s < 60):
        if chance.random() < 0.5:
            sent += 1
            site.send(f"session:{seed}", web=sent % 2, delta=sent if sent % 2 else -sent)
        which = chance.randrange(2)
        path = f"/api/v1/counters/session:{seed}" + chance.choice(["", "", "", "/exact"])
        headers = {"Tally-Session": session} if session else {}
        answer = site.webs[which].client.get(path, headers=headers)
        assert answer.status_code == 200, answer.text
        session = answer.headers["tally-session"]
        net = answer.json()["net"]
        counted = 2 * net - 1 if net > 0 else -2 * net
        assert counted >= seen, f"{counted} of {sent} after {seen} were seen"
        seen = counted
    assert seen > 10


def test_a_stopped_worker_makes_live_incomplete_and_names_the_shard(site: Site) -> None:
    [worker] = site.tally.workers
    get(site, "/api/v1/counters/stopped:x", after=site.send("stopped:x"))
    worker.send(signal.SIGSTOP)
    try:
        site.send("stopped:x")
        answer = get(site, "/api/v1/counters/stopped:x/live", wait=0.5)
        assert (answer["total"], answer["complete"]) == (1, False)
        assert any(
            remark.startswith("not flushed on request: shard") for remark in answer["remarks"]
        )
        assert get(site, "/api/v1/counters/stopped:x/exact")["total"] == 1
    finally:
        worker.send(signal.SIGCONT)
    wait_until(
        lambda: get(site, "/api/v1/counters/stopped:x/live")["complete"],
        "live is complete again",
        timeout_s=40,
    )
    assert get(site, "/api/v1/counters/stopped:x/live")["total"] == 2


def test_events_tell_changes_and_trouble_of_views(site: Site) -> None:
    get(site, "/api/v1/counters/events:x", after=site.send("events:x"))
    path = "/api/v1/events?counter=events:x&top=events&trending=nobody"
    found: dict[str, Any] = {}
    with site.web.client.stream("GET", path) as stream:
        assert stream.headers["content-type"].startswith("text/event-stream")
        lines = stream.iter_lines()
        event, is_raised = "", False
        for line in lines:
            if line.startswith("event: "):
                event = line.removeprefix("event: ")
            elif line.startswith("data: "):
                found[event] = json.loads(line.removeprefix("data: "))
                # It may be told again before it is 7: when it is complete after it was not, say.
                if event == "counter" and found[event]["total"] == 1 and not is_raised:
                    site.send("events:x", delta=6)
                    is_raised = True
            if found.get("counter", {}).get("total") == 7 and len(found) == 3:
                break
    assert found["top"]["top"][0]["counter"] == "events:x"
    assert "nobody" in found["trouble"]["error"]


def test_a_body_cut_short_and_odd_requests_do_no_harm(site: Site) -> None:
    host, _, port = site.web.url.removeprefix("http://").partition(":")
    for raw in (
        b"POST /api/v1/increments HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{",
        b"GET /api/v1/counters/likes:\xff HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET /api/v1/counters/likes:x HTTP/1.1\r\nHost: localhost\r\nTally-Session: \xff\r\n\r\n",
        b"BREW / HTTP/1.1\r\n\r\n",
        b"\x16\x03\x01",
    ):
        with socket.create_connection((host, int(port)), 40) as raw_client:
            raw_client.sendall(raw)
            raw_client.shutdown(socket.SHUT_WR)
            raw_client.settimeout(40)
            answer = raw_client.recv(100)
            assert not answer.startswith(b"HTTP/1.1 5"), (raw, answer)
    assert site.web.client.get("/health").json()["healthy"] in {True, False}
    assert "Traceback" not in site.web.process.output()
    large = site.web.client.post("/api/v1/increments", content=b" " * (17 << 20))
    assert large.status_code == 413
