"""An operator's SELECT reads and does nothing else, by whichever door it comes in."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from outhaul.data.catalog import Catalog, Dataset, Select
from outhaul.data.query import compile_source
from outhaul.data.session import Limits
from outhaul.domain.retry import Verdict, classify
from outhaul.errors import InvalidRequest, SourceError
from outhaul.service.copying import Copying
from outhaul.service.sources import Sources

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from conftest import Exporter

OWN = "CREATE TABLE c50_owned(x int)"
PROCEDURES = {
    "c50_write": "CREATE TABLE c50_owned(x int); DELETE FROM c24; RETURN 1;",
    "c50_off": "SET transaction_read_only = off; DELETE FROM c24; RETURN 1;",
    "c50_commit": "COMMIT; DELETE FROM c24; RETURN 1;",
    "c50_temp": "CREATE TEMP TABLE c50_owned(x int); RETURN 1;",
}
TABLES = (
    "CREATE TABLE c24 AS SELECT i AS id FROM generate_series(1,48) i",
    "CREATE TABLE secret AS SELECT 's3cr3t' AS word",
    "CREATE SEQUENCE c50_seq",
    "SELECT lo_from_bytea(4711, 'blob')",
    *(
        f"CREATE FUNCTION {name}() RETURNS int LANGUAGE plpgsql AS $$BEGIN {body} END$$"
        for name, body in PROCEDURES.items()
    ),
)


def no_queue():
    raise AssertionError("a copy needs no queue")


@dataclass
class Source:
    """A database with something to lose, and what happened to it."""

    export: Exporter
    folder: Path
    listener: psycopg.Connection

    def copy(self, sql: str, *, url: str | None = None, timeout: timedelta) -> bytes:
        to = self.folder / "out.csv"
        copying = Copying(Sources(lambda: url or self.export.url, {}, no_queue), timeout, False, None)
        copying.copy(
            Catalog,
            dataset=None,
            sql=sql,
            tenant=None,
            to=str(to),
            raw={},
            on_progress=lambda rows, expected: None,
        )
        data = to.read_bytes()
        to.unlink()
        return data

    def dataset(self, sql: str, *, url: str | None = None, timeout: timedelta) -> bytes:
        export = type(self.export)(url or self.export.url)
        dataset = Dataset("d", Select(sql), None, shared=True)
        return export(dataset, limits=Limits(statement_timeout=timeout)).data

    def assert_untouched(self) -> None:
        """Nothing was written, told, locked or left behind."""
        for _ in range(100):  # a backend outlives its client's goodbye by a moment
            with psycopg.connect(self.export.url, autocommit=True) as connection:
                found = connection.execute(
                    "SELECT to_regclass('c50_owned')::text, (SELECT count(*) FROM c24), (SELECT sum(id) FROM c24), "
                    "(SELECT is_called FROM c50_seq), (SELECT array_agg(oid) FROM pg_largeobject_metadata), "
                    "(SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'), "
                    "(SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() "
                    "AND application_name ~ '^outhaul')"
                ).fetchone()
            if found[-1] == 0:
                break
        assert found == (None, 48, 48 * 49 // 2, False, [4711], 0, 0)
        assert list(self.listener.notifies(timeout=0)) == []
        assert list(self.folder.iterdir()) == []


@pytest.fixture(scope="module")
def source_url(pg) -> Iterator[str]:
    """One database for all: each test checks that it left it as it was."""
    with psycopg.connect(pg.url("postgres"), autocommit=True) as admin:
        admin.execute("CREATE DATABASE c50 TEMPLATE template0")
        with psycopg.connect(pg.url("c50"), autocommit=True) as connection:
            for statement in TABLES:
                connection.execute(statement)
        yield pg.url("c50")
        admin.execute("DROP DATABASE c50 WITH (FORCE)")


@pytest.fixture(scope="module")
def reader(source_url) -> Iterator[str]:
    """The URL for a role that may read c24 and nothing else, as the README asks for."""
    with psycopg.connect(source_url, autocommit=True) as connection:
        connection.execute("CREATE ROLE c50_reader LOGIN; GRANT SELECT ON c24 TO c50_reader")
        connection.execute("REVOKE EXECUTE ON FUNCTION c50_write() FROM PUBLIC")
        yield source_url.replace("postgres@", "c50_reader@", 1)
        connection.execute("DROP OWNED BY c50_reader; DROP ROLE c50_reader")


@pytest.fixture
def source(export, tmp_path) -> Iterator[Source]:
    folder = tmp_path / "out"
    folder.mkdir()
    with psycopg.connect(export.url, autocommit=True) as listener:
        listener.execute("LISTEN c")
        yield Source(export, folder, listener)


@pytest.fixture(params=["copy", "dataset"])
def run(request, source):
    def run(sql: str, *, url: str | None = None, seconds: float = 30) -> bytes:
        return getattr(source, request.param)(sql, url=url, timeout=timedelta(seconds=seconds))

    return run


SEVERAL = "more than one statement; one SELECT only"
NO_SELECT = "is not a SELECT; one SELECT only"
AT_SUBMIT = [
    (f"SELECT 1; COMMIT; {OWN}; SELECT 2", SEVERAL),
    (f"-- harmless\nSELECT 1; COMMIT; {OWN}; SELECT 2", SEVERAL),
    (f"/* harmless; /* nested */ */ SELECT 1; COMMIT; {OWN}", SEVERAL),
    (f"SELECT 1 /* ' */; COMMIT; {OWN} -- '", SEVERAL),
    (f"SELECT 1 -- '\n; COMMIT; {OWN} -- '", SEVERAL),
    (f"SELECT $$a$$; COMMIT; {OWN}; SELECT $$b$$", SEVERAL),
    (f"SELECT $a$ $b$ $a$; COMMIT; {OWN}; SELECT $b$ $b$", SEVERAL),
    (f"SELECT E'\\''; COMMIT; {OWN}; SELECT 'x'", SEVERAL),
    (f"SELECT '\\'; COMMIT; {OWN}; SELECT '1'", SEVERAL),
    # Where a careless eye takes code for text.
    (f"SELECT 1 AS a -- \r) AS x; COMMIT; {OWN}; SELECT * FROM (SELECT 1 AS b", SEVERAL),
    (f"SELECT date'\\') AS x; COMMIT; {OWN}; SELECT * FROM (SELECT '1'", SEVERAL),
    (f"SELECT E'a'\n'b\\'' AS a) AS x; COMMIT; {OWN}; SELECT * FROM (SELECT 1 AS b --'", SEVERAL),
    (f"SELECT E'a' -- and\n -- on\n'b\\'' AS a) AS x; COMMIT; {OWN}; SELECT * FROM (SELECT 1 AS b --'", SEVERAL),
    (f"SELECT 1 AS \u00a0$$) AS x; COMMIT; {OWN}; SELECT * FROM (SELECT 1 AS \u00a0$$", SEVERAL),
    ("WITH d AS (DELETE FROM c24 RETURNING *) SELECT * FROM d", r"writes \(DELETE\); one SELECT only"),
    ("WITH d AS (INSERT INTO c24 VALUES (0) RETURNING *) TABLE d", r"writes \(INSERT\)"),
    ("WITH d AS NOT MATERIALIZED (/**/UPDATE c24 SET id = 0 RETURNING *) SELECT 1", r"writes \(UPDATE\)"),
    ("SELECT * FROM (WITH d AS (DELETE FROM c24 RETURNING *) SELECT * FROM d) q", r"writes \(DELETE\)"),
    ("COPY c24 TO PROGRAM 'id'", NO_SELECT),
    ("/* SELECT */ COPY c24 TO '/tmp/c24'", NO_SELECT),
    ("EXPLAIN ANALYZE DELETE FROM c24", NO_SELECT),
    *(
        (statement, NO_SELECT)
        for statement in (
            "DELETE FROM c24", "TRUNCATE c24", OWN, "CALL c50_write()", "DO $$BEGIN DELETE FROM c24; END$$",
            "SET transaction_read_only = off", "COMMIT AND CHAIN", "PREPARE TRANSACTION 'x'", "LOCK TABLE c24",
            "EXECUTE x", "NOTIFY c, 'x'", "VACUUM c24", "", ";", "-- SELECT 1",
        )
    ),
    ("SELECT 1) AS a, (SELECT 2", "parentheses"),
    ("SELECT 1\x00; COMMIT", "more than one|NUL"),
]  # fmt: skip


@pytest.mark.parametrize(("sql", "words"), AT_SUBMIT, ids=lambda value: value[:40].encode("unicode_escape").decode())
def test_case_50_refused_before_anything_is_sent(source, run, sql, words):
    with pytest.raises(InvalidRequest, match=words):
        run(sql, url="postgresql://nowhere.invalid/none")
    source.assert_untouched()


WRITES = "tries to write; only reading is allowed"
LEAVES = "tries to leave its transaction"
BY_THE_SERVER = [
    ("SELECT set_config('transaction_read_only','off',false)", LEAVES),
    ("SELECT set_config('transaction_read_only','off',false), c50_write()", LEAVES),
    ("SELECT set_config('transaction_isolation','serializable',true)", LEAVES),
    ("SELECT c50_off()", LEAVES),
    ("SELECT c50_commit()", LEAVES),
    ("SELECT set_config('default_transaction_read_only','off',false) AS a, c50_write() AS b", WRITES),
    ("SELECT c50_write()", WRITES),
    ("SELECT c50_temp()", WRITES),
    ("SELECT id FROM c24 FOR UPDATE", WRITES),
    ("SELECT id FROM c24 FOR KEY SHARE", WRITES),
    ("SELECT nextval('c50_seq')", WRITES),
    ("SELECT setval('c50_seq', 7)", WRITES),
    ("SELECT 1 AS a INTO c50_owned", "syntax error"),
    ("SELECT 1 AS a INTO TEMP c50_owned", "syntax error"),
    ("WITH a AS (WITH b AS (SELECT 1) DELETE FROM c24 RETURNING 1) SELECT 1", "does not support"),
    ("SELECT query_to_xml('DELETE FROM c24', true, true, '')::text", "does not support|compute a value"),
    ("SELECT query_to_xml('COPY c24 TO PROGRAM ''id''', true, true, '')::text", "does not support"),
    ("SELECT * FROM dblink('dbname=x', 'DELETE FROM c24') AS t(a int)", "function or operator .* does not exist"),
    ("SELECT pg_terminate_backend(pg_backend_pid())", "ended the connection"),
]


@pytest.mark.parametrize(("sql", "words"), BY_THE_SERVER)
def test_case_50_refused_by_the_read_only_transaction(source, run, sql, words):
    """The role is a superuser here: nothing but the transaction protects."""
    with pytest.raises(SourceError, match=words) as caught:
        run(sql)
    lost = caught.value.sqlstate == "57P01"
    assert classify(caught.value) is (Verdict.TRANSIENT if lost else Verdict.PERMANENT)
    source.assert_untouched()


@pytest.mark.parametrize(
    "sql", ["SELECT lo_unlink(4711)", "SELECT lo_put(4711, 0, 'x')", "SELECT lo_import('/etc/hostname')"]
)
def test_case_50_large_objects(source, run, sql):
    """Refused since PostgreSQL 16; before it they are undone with the transaction."""
    try:
        run(sql)
    except SourceError as error:
        assert error.sqlstate == "25006"  # noqa: PT017 - either way is right
    source.assert_untouched()


@pytest.mark.parametrize(
    ("sql", "data"),
    [
        ("SELECT pg_notify('c','x')::text AS a", b'a\n""\n'),
        ("SELECT pg_advisory_lock(5)::text AS a", b'a\n""\n'),
        ("SELECT set_config('application_name','x',false) AS a", b"a\nx\n"),
        ("SELECT ';' AS a, $q$;$q$ AS b, E'\\';' AS \";\" ; -- ;", b"a,b,;\n;,;,';\n"),
        ("SELECT 1 AS a ;;\n", b"a\n1\n"),
        ("WITH d AS (SELECT id AS delete FROM c24) SELECT max(d.delete) AS update FROM d", b"update\n48\n"),
        ("SELECT * FROM json_to_record('{\"delete\": 1}') AS (delete int)", b"delete\n1\n"),
        ("(VALUES (1))", b"column1\n1\n"),
        ("SELECT E'a'\n  'b\\'' AS a, '-- ' AS b", b"a,b\nab',-- \n"),
        ('SELECT 1 AS a$b, 2 AS "a;b", 3 AS é$$', "a$b,a;b,é$$\n1,2,3\n".encode()),
    ],
)
def test_case_50_allowed_and_without_consequence(source, run, sql, data):
    assert run(sql) == data
    source.assert_untouched()


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT pg_sleep(86400)",
        "SELECT set_config('statement_timeout','0',false) AS a, pg_sleep(86400)::text AS b",
        "SELECT b.* FROM set_config('statement_timeout','0',false) AS a, LATERAL pg_sleep(length(a) * 86400) AS b",
        "SELECT count(*) FROM generate_series(1, 1e12::bigint)",
        "WITH RECURSIVE r AS (SELECT 1 AS i UNION ALL SELECT i FROM r) SELECT max(i) FROM r",
    ],
)
def test_case_50_the_time_limit_ends_a_sleeper(source, run, sql):
    with pytest.raises(SourceError, match="cancelled or ran longer than it may") as caught:
        run(sql, seconds=0.5)
    assert caught.value.sqlstate == "57014"
    source.assert_untouched()


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT pg_read_file('/etc/hostname')",
        "SELECT pg_ls_dir('/etc')",
        "SELECT lo_export(4711, '{folder}/out.csv')",
        "SELECT lo_get(4711)",
        "SELECT c50_write()",
        "SELECT * FROM secret",
        "SELECT rolpassword FROM pg_authid",
        "SELECT set_config('role', 'postgres', false)",
        "SELECT set_config('session_authorization', 'postgres', false)",
        "SELECT pg_terminate_backend({listener})",
        "SELECT pg_switch_wal()",
        "SELECT pg_reload_conf()",
        "SELECT pg_create_physical_replication_slot('c50')",
    ],
)
def test_case_50_what_only_the_role_can_refuse(source, run, reader, sql):
    sql = sql.format(folder=source.folder, listener=source.listener.info.backend_pid)
    with pytest.raises(SourceError, match="SQLSTATE 42501") as caught:
        run(sql, url=reader)
    assert classify(caught.value) is Verdict.PERMANENT
    source.assert_untouched()
    assert len(run("TABLE c24", url=reader).splitlines()) == 49


def test_case_50_text_is_cut_as_the_session_reads_it(source, run):
    """With the setting off, a backslash hides the quote behind it, and the rest of this would be code."""
    with psycopg.connect(source.export.url, autocommit=True) as connection:
        connection.execute("ALTER DATABASE c50 SET standard_conforming_strings = off")
        try:
            assert run("SELECT 'a\\'' ) AS x; DELETE FROM c24; --' AS t") == b"t\na\\' ) AS x; DELETE FROM c24; --\n"
        finally:
            connection.execute("ALTER DATABASE c50 RESET ALL")
    source.assert_untouched()


def test_case_50_on_the_command_line(source, tmp_path):
    env = {
        **os.environ,
        "OUTHAUL_SOURCE_URL": source.export.url,
        "OUTHAUL_HOME": str(tmp_path / "home"),
        "OUTHAUL_STATEMENT_TIMEOUT_SECONDS": "1",
        "PYTHONPATH": os.pathsep.join(sys.path),
    }
    for sql, code, words in (
        (f"SELECT 1; COMMIT; {OWN}; SELECT 2", 2, "holds more than one statement; one SELECT only"),
        ("SELECT c50_write()", 1, WRITES),
        ("SELECT pg_sleep(86400)", 1, "ran longer than it may"),
    ):
        command = [sys.executable, "-m", "outhaul", "copy", "--sql", sql, "--to", str(source.folder / "out.csv")]
        ended = subprocess.run(command, env=env, capture_output=True, text=True, check=False, timeout=60)
        assert ended.returncode == code, ended.stderr
        assert words in ended.stderr
        assert ended.stderr.count("\n") == 1
        source.assert_untouched()


FRAGMENTS = [
    "'", "''", "\\'", "\\", '"', "$$", "$a$", "E'", "e", "$", "1", "--", "\n", "\r", " ", "/*", "*/", "\u00a0", "N",
]  # fmt: skip
JUNK = st.lists(st.sampled_from(FRAGMENTS), max_size=6).map("".join)


@settings(max_examples=600, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(before=JUNK, after=JUNK, name=st.sampled_from(["AS a ", "AS e", "AS N", ", "]))
def test_case_50_no_quoting_hides_a_second_statement(source_url, before, after, name):
    """Whatever passes for one SELECT here is one to PostgreSQL's own parser, too."""
    sql = f"SELECT 1 {name}{before}) AS x; SELECT * FROM (SELECT 1 AS b {after}"
    try:
        dataset = Dataset("d", Select(sql), None, shared=True)
    except InvalidRequest:
        return
    with psycopg.connect(source_url, autocommit=True) as connection:
        prepared = connection.pgconn.prepare(b"", compile_source(dataset.source).encode())
    assert b"multiple commands" not in prepared.error_message, sql
