from __future__ import annotations

import csv
import gzip
import io
import re

import duckdb
import psycopg
import pytest

from outhaul.errors import InvalidRequest

C49 = (
    "SELECT -5.5::numeric AS n, '-5.5'::text AS t1, '=SUM(A1)' AS t2, '+49 30 123' AS t3, '@x' AS t4, "
    r"""E'\t=1' AS t5, E'\r=1' AS t6, 'a=1' AS t7, 1 AS "=1+1" """
)
EXCEL = "SELECT '007' AS code, '370911202104140038' AS card, 'Ünï' AS name"


def records(data: bytes, **dialect) -> list[list[str]]:
    return list(csv.reader(io.StringIO(data.decode("utf-8-sig"), newline=""), **dialect))


def test_case_12_for_excel(export):
    plain = export(EXCEL).data
    assert plain == b"code,card,name\n007,370911202104140038,\xc3\x9cn\xc3\xaf\n"
    result = export(EXCEL, options={"excel": True})
    assert result.data == b"\xef\xbb\xbfcode,card,name\r\n007,370911202104140038,\xc3\x9cn\xc3\xaf\r\n"
    assert result.produced.manifest["options"]["max_rows_per_file"] == 1_048_575


def test_case_12_one_mark_in_each_part_and_member(export):
    many = "SELECT i AS code FROM generate_series(1, 5) AS i"
    result = export(many, options={"excel": True, "max_rows_per_file": 2, "compression": "gzip"})
    parts = [gzip.decompress(data) for name, data in result.store.files.items() if name != "manifest.json"]
    assert parts == [
        b"\xef\xbb\xbfcode\r\n1\r\n2\r\n", b"\xef\xbb\xbfcode\r\n3\r\n4\r\n", b"\xef\xbb\xbfcode\r\n5\r\n"
    ]  # fmt: skip


def test_excel_gives_way_to_what_is_asked(export):
    assert export(EXCEL, options={"excel": "true", "bom": False}).data.startswith(b"code,card,name\r\n")
    assert export(EXCEL, options={"excel": "false"}).data == export(EXCEL).data


def test_case_49_formulas(export):
    plain = export(C49)
    assert plain.data == export.copy(C49)
    assert plain.produced.manifest["guarded"] == []
    result = export(C49, options={"guard_formulas": True})
    assert records(result.data) == [
        ["n", "t1", "t2", "t3", "t4", "t5", "t6", "t7", "'=1+1"],
        ["-5.5", "'-5.5", "'=SUM(A1)", "'+49 30 123", "'@x", "'\t=1", "'\r=1", "a=1", "1"],
    ]
    assert result.produced.manifest["guarded"] == ["t1", "t2", "t3", "t4", "t5", "t6", "t7"]
    for format_ in ("json", "parquet"):
        with pytest.raises(InvalidRequest, match=r"options\.guard_formulas"):
            export(C49, format_, options={"guard_formulas": True})


def test_case_49_headers(export):
    select = "SELECT 'x' AS \"=1+1\", 1 AS \"@n\", 'y' AS plain"
    assert export(select, options={"guard_formulas": True}).data == b"'=1+1,'@n,plain\nx,1,y\n"


def test_case_49_columns_of_choice(export):
    result = export(C49, options={"guard_formulas": ["t2", "t4"]})
    assert records(result.data)[1] == ["-5.5", "-5.5", "'=SUM(A1)", "+49 30 123", "'@x", "\t=1", "\r=1", "a=1", "1"]
    assert result.produced.manifest["guarded"] == ["t2", "t4"]
    assert export(C49, options={"guard_formulas": "t2,t4"}).data == result.data
    with pytest.raises(InvalidRequest, match=r"guard_formulas.*'t9' is not a known column. Allowed: =1"):
        export(C49, options={"guard_formulas": ["t9"]})


@pytest.mark.parametrize("kind", ["interval", "money", "numrange", "point", "timestamptz", "int4"])
def test_case_49_numbers_and_their_like_stay(export, kind):
    value = {"interval": "-1 day", "money": "-5", "numrange": "[-1,2)", "point": "(-1,2)",
             "timestamptz": "-infinity", "int4": "-5"}[kind]  # fmt: skip
    select = f"SELECT '{value}'::{kind} AS v"
    assert export(select, options={"guard_formulas": True}).data == export.copy(select)


@pytest.mark.parametrize("value", ['{"a": 1}', "=cmd|'/C calc'!A0"])
@pytest.mark.parametrize("kind", ["text", "varchar", "text[]", "jsonb", "c49_mood", "c49_pair"])
def test_case_49_every_kind_of_free_text(export, kind, value):
    export.sql(
        "DROP TYPE IF EXISTS c49_mood, c49_pair",
        f"CREATE TYPE c49_mood AS ENUM ('{value.replace(chr(39), chr(39) * 2)}')",
        "CREATE TYPE c49_pair AS (a text)",
    )
    text = {"text[]": "{=1}", "jsonb": '"=1"', "c49_pair": "(=1)"}.get(kind, value)
    quoted = text.replace("'", "''")
    printed = records(export(f"SELECT '{quoted}'::{kind} AS v", options={"guard_formulas": True}).data)[1][0]
    assert printed == ("'" + text if text.startswith("=") else text)


def test_case_49_the_guard_can_be_undone(export):
    values = ["=1", "'=1", "''-1", "'tis", "", "-", "a", "'", "\n+", "＝1"]  # noqa: RUF001 - as typed in East Asia
    rows = ", ".join(f"({i}, $q${value}$q$)" for i, value in enumerate(values))
    data = export(f"SELECT v FROM (VALUES {rows}) AS t(i, v) ORDER BY i", options={"guard_formulas": True}).data
    undone = [re.sub(r"^'('*[=+\-@\t\r\n＝＋－＠])", r"\1", row[0]) for row in records(data)[1:]]  # noqa: RUF001
    assert undone == values


@pytest.mark.parametrize("line_ending", ["lf", "crlf"])
@pytest.mark.parametrize("quote", ["necessary", "all"])
@pytest.mark.parametrize("null", ["", "NULL", "\\N"])
@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_dialects_are_what_copy_prints(export, delimiter, null, quote, line_ending):
    """COPY has the same options but for the line ending, which the reader below undoes."""
    select = (
        r"SELECT i, v, n FROM (VALUES (1, '', NULL), (2, NULL, 1.50), (3, 'NULL', 0), (4, '\N', 2), "
        r"""(5, E'a"b,c;d\te|f', 3), (6, E'r\r\ns', 4), (7, ' x ', 5), (8, '\.', 6)) AS t(i, v, n) ORDER BY i"""
    )
    options = {"delimiter": delimiter, "null": null, "quote": quote, "line_ending": line_ending}
    data = export(select, options=options).data
    force = ", FORCE_QUOTE *" if quote == "all" else ""
    with psycopg.connect(export.url) as connection, connection.cursor() as cursor:
        statement = f"COPY ({select}) TO STDOUT (FORMAT csv, DELIMITER E'{delimiter}', NULL '{null}'{force})"
        with cursor.copy(statement) as copy:
            body = b"".join(bytes(chunk) for chunk in copy)
    header, _, rest = data.partition(b"\n")
    assert header.rstrip(b"\r").replace(b'"', b"") == delimiter.join("ivn").encode()
    inside = body.replace(b"r\r\ns", b"r\0s")
    assert rest == inside.replace(b"\n", b"\r\n" if line_ending == "crlf" else b"\n").replace(b"r\0s", b"r\r\ns")


def test_case_09_a_null_token_loads_back(export):
    select = r"SELECT ''::text AS a, NULL::text AS b, 'NULL'::text AS c, '\N'::text AS d, ' '::text AS e"
    data = export(select, options={"null": "NULL"}).data
    assert data == b'a,b,c,d,e\n,NULL,"NULL",\\N, \n'
    with psycopg.connect(export.url) as connection, connection.cursor() as cursor:
        cursor.execute("CREATE TEMP TABLE back (a text, b text, c text, d text, e text)")
        with cursor.copy("COPY back FROM STDIN (FORMAT csv, HEADER, NULL 'NULL')") as copy:
            copy.write(data)
        assert cursor.execute("SELECT * FROM back").fetchone() == ("", None, "NULL", "\\N", " ")


def test_decimal_comma(export):
    select = (
        "SELECT 1234.50::numeric(9,2) AS a, -0.5::float8 AS b, 1.5::float4 AS c, 'NaN'::numeric AS d, "
        "'1.5'::text AS e, 1e30::float8 AS f, 7 AS g"
    )
    data = export(select, options={"decimal": ",", "delimiter": ";"}).data
    assert data == b"a;b;c;d;e;f;g\n1234,50;-0,5;1,5;NaN;1.5;1e+30;7\n"
    quoted = export("SELECT 1.5 AS a, 2 AS b", options={"decimal": ",", "delimiter": "\t", "quote": "all"}).data
    assert quoted == b'"a"\t"b"\n"1,5"\t"2"\n'


def test_date_and_timestamp_formats(export):
    select = (
        "SELECT d, ts, tz FROM (VALUES (1, '2026-02-03'::date, '2026-02-03 04:05:06.5'::timestamp, "
        "'2026-02-03 04:05:06+02'::timestamptz), (2, 'infinity', '-infinity', 'infinity'), "
        "(3, '0044-03-15 BC', '12026-01-01', NULL)) AS t(i, d, ts, tz) ORDER BY i"
    )
    data = export(
        select, options={"date_format": "%d.%m.%Y", "timestamp_format": "%Y-%m-%dT%H:%M:%S.%f%z"}
    ).data.decode()  # fmt: skip
    assert data.splitlines()[1:] == [
        "03.02.2026,2026-02-03T04:05:06.500000,2026-02-03T02:05:06.000000+0000",
        "infinity,-infinity,infinity",
        "0044-03-15 BC,12026-01-01 00:00:00,",
    ]
    commas = export("SELECT '2026-02-03'::date AS d", options={"date_format": '%b %d, "%Y"'}).data
    assert commas == b'd\n"Feb 03, ""2026"""\n'


def test_duckdb_reads_the_dialect(export, tmp_path):
    data = export(
        "SELECT 1.5 AS a, 'x;y' AS b, NULL AS c",
        options={"delimiter": ";", "decimal": ",", "line_ending": "crlf", "null": "NULL", "bom": True},
    ).data
    (tmp_path / "x.csv").write_bytes(data)
    found = duckdb.sql(
        f"SELECT * FROM read_csv('{tmp_path}/x.csv', delim=';', decimal_separator=',', nullstr='NULL', header=true, "
        "types={'a': 'DECIMAL(3,1)'})"
    ).fetchall()
    assert [(str(a), b, c) for a, b, c in found] == [("1.5", "x;y", None)]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"delimiter": '"'}, r"options\.delimiter: must be one ASCII character"),
        ({"delimiter": "\n"}, r"options\.delimiter: must be one ASCII character"),
        ({"delimiter": "é"}, r"options\.delimiter: must be one ASCII character"),
        ({"decimal": ","}, "delimiter and decimal are both ','"),
        ({"delimiter": ";", "null": "a;b"}, "null holds the delimiter"),
        ({"null": "a\nb"}, "null holds the delimiter"),
        ({"date_format": "%Q"}, r"options\.date_format: does not know %Q\. Allowed: %Y"),
        ({"timestamp_format": "50%"}, r"options\.timestamp_format: does not know %"),
        ({"max_rows_per_file": 0}, r"options\.max_rows_per_file: input should be greater than or equal to 1"),
        ({"max_bytes_per_file": 1000}, r"options\.max_bytes_per_file: input should be greater"),
        ({"excel": "perhaps"}, r"options\.excel"),
    ],
)
def test_options_that_cannot_be(export, options, words):
    with pytest.raises(InvalidRequest, match=words):
        export("SELECT 1 AS a", options=options)
