"""What readers may send, judged by the text alone."""

import pytest

from pipeline.embedded.clickhouse.errors import READONLY, ClickHouseError
from pipeline.embedded.clickhouse.reading import SETTINGS, Reading
from pipeline.embedded.clickhouse.request import parse_request
from pipeline.embedded.clickhouse.statement import parse

ENGINE_HAS = [
    "numbers",
    "values",
    "view",
    "merge",
    "format",
    "file",
    "url",
    "remote",
    "python",
    "eval",
    "s3",
    "cluster",
    "newest",
]
READING = Reading.of(ENGINE_HAS)


def check(sql: str, **values: str) -> None:
    request = parse_request("POST", {"query": sql, **values}.items(), {})
    READING.check(request, parse(sql.encode(), 0))


def refusal(sql: str, **values: str) -> str:
    with pytest.raises(ClickHouseError) as refused:
        check(sql, **values)
    assert refused.value.code == READONLY
    return refused.value.text


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT count FROM tally.counts_1m WHERE counter = 'likes:a/b' FORMAT JSON",
        "WITH a AS (SELECT 1) SELECT * FROM a, numbers(3) AS n",
        "FROM tally.totals SELECT total",
        "(SELECT 1) UNION ALL (SELECT 2)",
        "SHOW TABLES FROM tally",
        "SHOW SETTINGS LIKE 'max%'",
        "SHOW CHANGED SETTINGS ILIKE '%max%'",
        "SELECT 'a', 'b' FROM t WHERE f(a, 'x') IN ('a', 'b') ORDER BY a, 'c' LIMIT 1",
        "FROM t SELECT a, 'b' UNION ALL SELECT 'c', 'd' FROM values('a String', 'b', 'c')",
        "WITH 'a' AS x, 'b' AS y SELECT x, y FROM t GROUP BY a, 'b' HAVING a IN (x, 'y')",
        "DESCRIBE TABLE tally.totals",
        "EXISTS tally.totals",
        "EXPLAIN PLAN SELECT 1",
        "SELECT Settings FROM system.processes",
        "SELECT p.Settings['x'], Settings['y'] FROM system.processes AS p",
        'SELECT count() AS "likes/s" FROM t ORDER BY "likes/s"',
        "SELECT format('{}', 'x'), 'file(1)', \"file\" FROM t",
        "SELECT total FROM t WHERE counter IN ('a', 'b') AND x = {c:String} /* file('x') */",
        "SELECT * FROM values('a Int8', 1) -- url('x')",
        "SELECT file FROM t",
    ],
)
def test_reading_is_for_readers(sql: str) -> None:
    check(sql)


@pytest.mark.parametrize(
    "sql",
    [
        "INSERT INTO t VALUES (1)",
        "INSERT INTO t SELECT 1",
        "INSERT INTO FUNCTION file('x') SELECT 1",
        "WITH 1 AS a INSERT INTO t SELECT a",
        "EXPLAIN PIPELINE INSERT INTO t SELECT 1",
        "CREATE TABLE t (a Int8) ENGINE = Memory",
        "DROP TABLE t",
        "SET max_threads = 1",
        "USE tally",
        "KILL QUERY WHERE 1",
        "BACKUP TABLE t TO File('x')",
        "CHECK TABLE t",
        "SYSTEM FLUSH LOGS",
        "SELECT 1 SETTINGS readonly = 0",
        "SELECT 1 FORMAT JSON SETTINGS max_threads = 1",
        "SELECT * FROM (SELECT 1 SETTINGS allow_introspection_functions)",
        "SELECT * FROM (SELECT 1 settings `max_threads` = 1)",
        "SELECT * FROM (SELECT 1 AS changed SETTINGS max_threads = 1)",
        "SELECT * FROM (SELECT 1 AS show SETTINGS max_threads = 1)",
        "SHOW TABLES WHERE name IN (SELECT 'a' SETTINGS max_threads = 1)",
        "SHOW SETTINGS WHERE name IN (SELECT 'a' SETTINGS max_threads = 1)",
    ],
)
def test_what_is_no_reading_or_sets_anything_is_refused(sql: str) -> None:
    refusal(sql)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM file('/etc/passwd')",
        "SELECT file('/etc/passwd')",
        "SELECT * FROM File ('x')",
        "SELECT * FROM `file`('x')",
        "SELECT * FROM \"file\" /* */ ('x')",
        "SELECT * FROM `fi\\x6ce`('x')",
        "SELECT * FROM `fi\\le`('x')",
        "SELECT (SELECT 1 FROM url('http://x', 'CSV'))",
        "SELECT 1 WHERE 1 IN (SELECT a FROM remote('x', y.z))",
        "DESCRIBE s3('x')",
        "DESCRIBE TABLE file('x')",
        "EXPLAIN SELECT * FROM python(x)",
        "SELECT * FROM Python(x)",
        "SELECT * FROM eval('SELECT 1')",
        "SELECT * FROM cluster('x', y.z)",
        "SELECT * FROM newest()",
        "SELECT aiGenerate('x', 'y')",
        "SELECT hasColumnInTable('default', '/etc/passwd', 'x')",
        "SELECT * FROM 1file('x')",
        "SELECT * FROM '/etc/passwd'",
        'SELECT * FROM "/etc/passwd"',
        "SELECT * FROM default.`/etc/passwd`",
        "SELECT * FROM t, `/etc/passwd`",
        "SELECT * FROM numbers(1) AS n, '/etc/passwd' AS f",
        "SELECT * FROM t JOIN u ON t.a = u.a, '/etc/passwd'",
        "SELECT 1 IN (SELECT 1 FROM (SELECT 1 WHERE 1) AS a, '/etc/passwd')",
        "SELECT * FROM t JOIN `\\x2fetc` USING a",
        "SELECT 1 IN `/etc/passwd`",
        "EXISTS `/etc/passwd`",
        "EXISTS TABLE `/etc/passwd`",
        "SHOW CREATE TABLE `/etc/passwd`",
        "SELECT * FROM {t:Identifier}",
        "SELECT * FROM {t : identifier}",
        "SELECT 1 FROM (SELECT 1 INTO OUTFILE 'x')",
        "SELECT /* /* */ ' */ file('x') -- '",
        "SELECT // '\n file('x') -- '",
    ],
)
def test_files_and_networks_are_not_for_readers(sql: str) -> None:
    refusal(sql)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM “file”('x')",
        "SELECT * FROM file\u00a0('x')",
        "SELECT $'$ a' $'$, file('/etc/passwd') --'",
        "SELECT $x$ a $x$",
        "SELECT 'a",
    ],
)
def test_what_the_engine_may_read_otherwise_is_refused(sql: str) -> None:
    assert "outside of quotes" in refusal(sql)


@pytest.mark.parametrize(
    "name", ["readonly", "allow_introspection_functions", "format_template_row"]
)
def test_settings_that_loosen_or_name_files_are_refused(name: str) -> None:
    assert f"Cannot modify '{name}' setting in readonly mode" in refusal("SELECT 1", **{name: "0"})


def test_harmless_settings_stay() -> None:
    check("SELECT 1", max_threads="1", readonly="1", max_execution_time="5")
    check("SELECT 1", readonly="2")
    for name in SETTINGS:
        assert not any(part in name for part in ("allow", "schema", "path", "file", "url"))
