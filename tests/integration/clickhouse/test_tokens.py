"""The door with tokens: who is let in, what readers get, and that no secret leaves it."""

import base64
from collections.abc import Iterator, Mapping
from pathlib import Path

import clickhouse_connect
import jwt
import pytest
from clickhouse_connect.driver.exceptions import DatabaseError

from pipeline.access.own import own_hash
from pipeline.access.tokens import digest_of, hash_text, new_token
from pipeline.clock import SystemClock
from pipeline.embedded.clickhouse.server import READER_BYTES_MAX
from tests.integration.clickhouse.process import ClickHouse, Reply
from tests.kit.waiting import eventually

NAMES = ("reader", "boss", "likes", "slow", "late", "leaver")
TOKENS = {name: new_token() for name in NAMES}
OWN = new_token()
SECRET = "s3cret-" * 8
RIGHTS = {
    "reader": 'read = ["*"]',
    "boss": 'admin = ["*"]',
    "likes": 'read = ["likes"]\nadmin = ["views"]\nwrite = ["*"]',
    "slow": 'read = ["*"]\nrate = 0.001',
    "late": 'admin = ["*"]\nexpires = "2020-01-01T00:00:00Z"',
    "leaver": 'read = ["*"]',
}


def file_text(*names: str) -> str:
    return "".join(
        f'[tokens.{name}]\nhash = "{hash_text(digest_of(TOKENS[name]))}"\n{RIGHTS[name]}\n'
        for name in names
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("guarded")
    (found / "tokens.toml").write_text(file_text(*NAMES))
    (found / "key").write_text(SECRET + "\n")
    (found / "secret.csv").write_text("a,b\n1,private\n")
    return found


@pytest.fixture(scope="module")
def guarded(folder: Path) -> Iterator[ClickHouse]:
    options = ("--tokens", str(folder / "tokens.toml"), "--jwt-key", str(folder / "key"))
    with ClickHouse(folder / "data", *options, environment=own_hash(OWN)) as process:
        made = ask(process, "boss", "CREATE TABLE kept (a Int32) ENGINE = MergeTree ORDER BY a")
        assert made.status == 200, made.text
        yield process
        code, errors = process.stop()
    assert code == 0
    assert [secret for secret in (*TOKENS.values(), OWN, SECRET) if secret in errors] == []


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def ask(door: ClickHouse, name: str, sql: str, **params: str) -> Reply:
    return door.ask(sql, "POST", "/", bearer(TOKENS[name]), **params)


def code(reply: Reply) -> str:
    return reply.headers.get("X-ClickHouse-Exception-Code", "")


def test_who_sends_no_credentials_is_told_as_clickhouse_does(guarded: ClickHouse) -> None:
    for headers in ({}, {"X-ClickHouse-User": "default"}):
        reply = guarded.ask("SELECT 1", headers=headers)
        assert (reply.status, code(reply)) == (403, "516")
        assert "AUTHENTICATION_FAILED" in reply.text
    assert guarded.ask("", "GET", "/ping").text == "Ok.\n"
    assert guarded.ask("", "GET", "/").text == "Ok.\n"


def test_a_wrong_an_expired_and_anothers_token_are_refused(guarded: ClickHouse) -> None:
    wrong = new_token()
    for token in (wrong, "secret", TOKENS["late"], hash_text(digest_of(TOKENS["boss"]))):
        reply = guarded.ask("SELECT 1", headers=bearer(token))
        assert (reply.status, code(reply)) == (403, "516")
        assert token not in reply.text
    reply = guarded.ask("SELECT 1", user="ada", password=TOKENS["boss"])
    assert code(reply) == "516"
    assert "another user" in reply.text


def basic(user: str, token: str) -> dict[str, str]:
    return {"Authorization": "Basic " + base64.b64encode(f"{user}:{token}".encode()).decode()}


@pytest.mark.parametrize("user", ["", "default", "reader"])
def test_the_token_is_the_password_in_every_way_to_send_one(user: str, guarded: ClickHouse) -> None:
    token = TOKENS["reader"]
    ways: list[tuple[Mapping[str, str], dict[str, str | int]]] = [
        (basic(user, token), {}),
        ({"X-ClickHouse-User": user, "X-ClickHouse-Key": token}, {}),
        ({}, {"user": user, "password": token}),
    ]
    for headers, params in ways:
        assert guarded.ask("SELECT 7", "POST", "/", headers, **params).text == "7\n"


def test_jwts_are_taken(guarded: ClickHouse) -> None:
    exp = SystemClock().now_ms() // 1000 + 60
    claims = {"sub": "ada", "exp": exp, "tally": {"read": ["*"]}}
    token = jwt.encode(claims, SECRET, "HS256")
    assert guarded.ask("SELECT 1", headers=bearer(token)).text == "1\n"
    assert code(guarded.ask("DROP TABLE kept", headers=bearer(token))) == "164"
    forged = jwt.encode(claims, SECRET + "x", "HS256")
    assert code(guarded.ask("SELECT 1", headers=bearer(forged))) == "516"


def test_rights_to_some_families_are_none_to_sql(guarded: ClickHouse) -> None:
    reply = ask(guarded, "likes", "SELECT 1")
    assert (reply.status, code(reply)) == (403, "497")
    assert "SQL cannot be limited to families" in reply.text


def test_who_asks_too_often_is_told_when_to_come_again(guarded: ClickHouse) -> None:
    replies = [ask(guarded, "slow", "SELECT 1") for _ in range(3)]
    assert [reply.status for reply in replies] == [200, 200, 429]
    assert 0 < int(replies[-1].headers["Retry-After"]) <= 1000
    assert code(replies[-1]) == "201"


def test_admins_and_the_pipeline_itself_do_everything(guarded: ClickHouse) -> None:
    assert ask(guarded, "boss", "INSERT INTO kept VALUES (1)").status == 200
    own = basic("tally", OWN)
    assert guarded.ask("INSERT INTO kept VALUES (2)", headers=own).status == 200
    assert guarded.ask("SELECT sum(a) >= 3 FROM kept", headers=own).text == "1\n"
    assert ask(guarded, "boss", "SET max_threads = 1", session_id="s").status == 200


def test_readers_read(guarded: ClickHouse) -> None:
    for sql, found in {
        "SELECT count() >= 0 FROM kept": "1",
        "EXISTS kept": "1",
        "SHOW TABLES LIKE 'kept'": "kept",
        "DESCRIBE kept": "a\tInt32",
        "EXPLAIN AST SELECT 1": "Select",
        "SELECT sum(number) FROM numbers(4)": "6",
        "SELECT getSetting('readonly')": "1",
        "SELECT getSetting('max_threads')": "3",
    }.items():
        reply = ask(guarded, "reader", sql, max_threads="3")
        assert reply.status == 200, reply.text
        assert found in reply.text
    get = guarded.ask("", "GET", "/", bearer(TOKENS["reader"]), query="SELECT 1")
    assert get.text == "1\n"


def test_clickhouse_connect_reads_with_a_readers_token(guarded: ClickHouse) -> None:
    client = clickhouse_connect.get_client(
        dsn=f"http://default:{TOKENS['reader']}@{guarded.host}:{guarded.port}"
    )
    assert client.query("SELECT {a:Int32} + 1", {"a": 4}).result_rows == [(5,)]
    with pytest.raises(DatabaseError, match="readonly") as refused:
        client.command("CREATE TABLE more (a Int8) ENGINE = Memory")
    assert TOKENS["reader"] not in str(refused.value)
    client.close()


WRITES = [
    "INSERT INTO kept VALUES (9)",
    "INSERT INTO kept SELECT 9",
    "WITH 9 AS a INSERT INTO kept SELECT a",
    "CREATE TABLE more (a Int8) ENGINE = Memory",
    "CREATE TEMPORARY TABLE more (a Int8)",
    "DROP TABLE kept",
    "ALTER TABLE kept DELETE WHERE 1",
    "TRUNCATE TABLE kept",
    "KILL QUERY WHERE 1",
    "SYSTEM FLUSH LOGS",
    "SET readonly = 0",
    "USE system",
    "SELECT 1 SETTINGS readonly = 0",
    "SELECT * FROM (SELECT 1 SETTINGS max_threads = 1)",
    "SELECT 1 INTO OUTFILE '{folder}/out.csv'",
    "INSERT INTO FUNCTION file('{folder}/out.csv') SELECT 1",
]
ESCAPES = [
    "SELECT * FROM file('{folder}/secret.csv')",
    "SELECT file('{folder}/secret.csv')",
    "DESCRIBE file('{folder}/secret.csv')",
    "SELECT * FROM '{folder}/secret.csv'",
    "SELECT * FROM `{folder}/secret.csv`",
    "SELECT * FROM system.one, `{folder}/secret.csv`",
    "SELECT * FROM numbers(1) AS n, '{folder}/secret.csv' AS f",
    "SELECT * FROM (SELECT 1 AS changed SETTINGS max_threads = 1)",
    "SELECT * FROM “{folder}/secret.csv”",
    "SELECT * FROM “file”('{folder}/secret.csv')",
    "SELECT /* /* */ ' */ file('{folder}/secret.csv') -- '",
    "SELECT // '\n file('{folder}/secret.csv') -- '",
    "SELECT $'$ a' $'$, file('{folder}/secret.csv') --'",
    "EXISTS `{folder}/secret.csv`",
    "SELECT * FROM python(engine)",
    "SELECT * FROM url('http://127.0.0.1:1/', 'CSV', 'a Int8')",
    "SELECT * FROM remote('127.0.0.1:1', system.one)",
    "SELECT * FROM executable('x', 'CSV', 'a Int8')",
    "SELECT * FROM sqlite('{folder}/x.db', 't')",
    "SELECT * FROM eval('SELECT 1')",
]


@pytest.mark.parametrize("session", [{}, {"session_id": "shared"}])
def test_readers_neither_write_nor_reach_files_and_networks(
    session: dict[str, str], guarded: ClickHouse, folder: Path
) -> None:
    # The engine would remember the file as a table from now on, and the session what is set in it.
    read = ask(guarded, "boss", f"SELECT b FROM `{folder}/secret.csv`", session_id="shared")
    assert read.text == "private\n"
    before = ask(guarded, "boss", "SELECT sum(a) FROM kept").text
    for sql in WRITES + ESCAPES:
        reply = ask(guarded, "reader", sql.format(folder=folder), **session)
        assert (reply.status, code(reply)) != (200, ""), sql
        assert code(reply) in {"164", "358"}, (sql, reply.text)
        assert "private" not in reply.text
    for name, value in {
        "readonly": "0",
        "format_template_row": f"{folder}/secret.csv",
        "allow_introspection_functions": "1",
    }.items():
        assert code(ask(guarded, "reader", "SELECT 1", **session, **{name: value})) == "164"
    named = {"param_t": f"{folder}/secret.csv", **session}
    assert code(ask(guarded, "reader", "SELECT * FROM {t:Identifier}", **named)) == "164"
    assert ask(guarded, "boss", "SELECT sum(a) FROM kept").text == before
    assert not (folder / "out.csv").exists()


def test_a_format_cannot_bring_another_statement(guarded: ClickHouse, folder: Path) -> None:
    before = (folder / "tokens.toml").read_text()
    for second in (
        f"SELECT toUInt8(file('{folder}/secret.csv'))",
        f"SELECT 'x' INTO OUTFILE '{folder}/tokens.toml' TRUNCATE FORMAT TSVRaw",
        "KILL QUERY WHERE 1",
        "DROP TABLE kept",
    ):
        injected = f"TSV; {second}"
        by_header = {**bearer(TOKENS["reader"]), "X-ClickHouse-Format": injected}
        for reply in (
            ask(guarded, "reader", "SELECT 1", default_format=injected),
            guarded.ask("SELECT 1", headers=by_header),
            guarded.ask(
                "", "GET", "/", bearer(TOKENS["boss"]), query="SELECT 1", default_format=injected
            ),
        ):
            assert (reply.status, code(reply)) == (404, "73")
            assert "private" not in reply.text
    assert (folder / "tokens.toml").read_text() == before
    assert ask(guarded, "boss", "EXISTS kept").text == "1\n"


def test_with_tokens_any_name_may_be_served(guarded: ClickHouse) -> None:
    headers = {**bearer(TOKENS["reader"]), "Host": "counts.example"}
    assert guarded.ask("SELECT 1", headers=headers).text == "1\n"


def test_what_readers_send_is_short(guarded: ClickHouse) -> None:
    spaces = " " * READER_BYTES_MAX
    form = f'--x\r\nContent-Disposition: form-data; name="a"\r\n\r\n{spaces}\r\n--x--\r\n'
    kind = {"Content-Type": "multipart/form-data; boundary=x"}
    for name, allowed in (("reader", False), ("boss", True)):
        by_body = ask(guarded, name, f"SELECT 1{spaces}", max_query_size="0")
        assert (by_body.text == "1\n") is allowed
        by_form = guarded.ask(form, "POST", "/", {**kind, **bearer(TOKENS[name])}, query="SELECT 1")
        too_large = (413, "229")
        assert ((by_form.status, code(by_form)) == too_large) is not allowed
        assert ((by_body.status, code(by_body)) == too_large) is not allowed


def test_external_tables_are_not_for_readers(guarded: ClickHouse) -> None:
    form = b'--x\r\nContent-Disposition: form-data; name="t"; filename="t"\r\n\r\n1\r\n--x--\r\n'
    headers = {"Content-Type": "multipart/form-data; boundary=x"}
    wanted: dict[str, str | int] = {"query": "SELECT * FROM t", "t_structure": "a Int8"}
    for name, status in (("reader", 500), ("boss", 200)):
        reply = guarded.ask(form, "POST", "/", {**headers, **bearer(TOKENS[name])}, **wanted)
        assert reply.status == status, reply.text


def test_a_revoked_token_ends_within_seconds(guarded: ClickHouse, folder: Path) -> None:
    assert ask(guarded, "leaver", "SELECT 1").status == 200
    draft = folder / "tokens.new"
    draft.write_text(file_text(*(name for name in NAMES if name != "leaver")))
    draft.replace(folder / "tokens.toml")
    eventually(lambda: ask(guarded, "leaver", "SELECT 1").status == 403, "the end of a token")
    assert ask(guarded, "reader", "SELECT 1").status == 200


def test_a_mistaken_token_file_is_refused_at_the_start(tmp_path: Path) -> None:
    file = tmp_path / "tokens.toml"
    file.write_text("[tokens.ada]\nread = 5\n")
    with pytest.raises(AssertionError, match=r"tokens\.toml:2: tokens\.ada\.read: expected"):
        ClickHouse(tmp_path / "data", "--tokens", str(file))
