"""What the web API answers to commands, and what becomes of an ordinary increment."""

from tests.integration.strict.conftest import Site
from tests.kit.waiting import eventually


def test_a_stock_is_sold_down_to_its_floor(site: Site) -> None:
    counter = "stock:shoes"
    assert site.decided(counter, "increment", delta=3, id="in")["remaining"] == 3
    first = site.decided(counter, "decrement", amount=2, id="a")
    assert first == {"accepted": True, "remaining": 1, "id": "a"}
    assert site.decided(counter, "decrement", amount=2, id="b")["accepted"] is False
    assert site.decided(counter, "decrement", amount=2, id="a") == first
    made = site.decided(counter, "decrement")
    assert made["accepted"]
    assert len(made["id"]) == 32
    assert site.decided(counter, "decrement", id="c", floor=-1)["remaining"] == 0


def test_a_familys_limit_holds_where_a_request_names_none(site: Site) -> None:
    counter = "quota:ada"
    answers = [site.decided(counter, "acquire", id=f"r{number}") for number in range(6)]
    assert [one["accepted"] for one in answers] == [True] * 5 + [False]
    assert [one["remaining"] for one in answers] == [4, 3, 2, 1, 0, 0]
    own = site.decided("quota:bob", "acquire", amount=7, limit=10, window="1h", id="x")
    assert own == {"accepted": True, "remaining": 3, "id": "x"}


def test_what_makes_no_sense_is_refused_with_a_line(site: Site) -> None:
    for counter, what, fields, part in (
        ("likes:p", "decrement", {}, "is not strict"),
        ("stock:a", "acquire", {}, "limit: missing"),
        ("stock:a", "decrement", {"amount": 0}, "amount: not from 1"),
        ("stock:a", "decrement", {"amout": 1}, "amout: not known"),
        ("stock:a", "acquire", {"limit": 1, "window": "soon"}, "window: expected a duration"),
        ("stock:a", "increment", {"member": "ada"}, "member: a strict counter has none"),
        ("stock:a", "increment", {"delta": -1}, "delta: below zero"),
    ):
        answer = site.ask(counter, what, **fields)
        assert answer.status_code == 422, answer.text
        assert part in answer.json()["error"]


def test_an_increment_in_the_ordinary_log_becomes_a_dead_letter(site: Site) -> None:
    site.tally.run("produce", "-", stdin='{"counter": "stock:bypass", "delta": 5}\n')
    site.tally.wait_for(
        "SELECT count() FROM tally.dead_letters WHERE reason LIKE '%its family is strict%'", [(1,)]
    )
    assert site.decided("stock:bypass", "decrement", id="a")["accepted"] is False


def test_reads_have_the_value_within_a_flush_or_two(site: Site) -> None:
    counter = "stock:read"
    site.decided(counter, "increment", delta=10, id="in")
    site.decided(counter, "decrement", amount=4, id="out")

    def total() -> int:
        found: int = site.web.client.get(f"/api/v1/counters/{counter}/exact").json()["total"]
        return found

    eventually(lambda: total() == 6, "the value is read")
    told = site.tally.json("count", counter)
    assert (told["total"], told["net"], told["mode"], told["complete"]) == (6, 6, "exact", True)
    assert told["staleness_ms"] < 60_000
    assert site.web.client.get(f"/api/v1/counters/{counter}").json()["total"] == 6
    assert site.tally.json("count", counter, "--mode", "live")["mode"] == "exact"
    by_minutes = site.tally.json("count", counter, "--by", "1m")
    assert by_minutes["remarks"] == [
        "a strict counter has one value: no windows, no regions, no times"
    ]
    site.tally.wait_for(
        f"SELECT value FROM tally.strict_totals WHERE counter = '{counter}'", [(6,)]
    )


def test_the_doctor_says_how_decisions_are_kept(site: Site) -> None:
    found = site.tally.run("doctor").stdout
    assert "tally.strict" in found
    assert "every write is synced" in found
