from __future__ import annotations

import csv
import gzip
import io
import json

import psycopg
import pyarrow as pa
import pytest

C11 = '''SELECT E'p\\rq' AS "a,b", E'r\\ns' AS "say ""hi""", E't\\r\\nu' AS " lead", 'v "w"' AS "SELECT", 'x,y'
AS "Größe", E'\\tz' AS g, '😀'||U&'\\2028' AS h'''


def test_case_09_empty_text_and_null(export):
    select = r"SELECT ''::text AS a, NULL::text AS b, 'NULL'::text AS c, '\N'::text AS d, ' '::text AS e"
    data = export(select).data
    assert data == b'a,b,c,d,e\n"",,NULL,\\N, \n'
    export.sql("CREATE TABLE back (a text, b text, c text, d text, e text)")
    with psycopg.connect(export.url) as connection:
        with connection.cursor().copy("COPY back FROM STDIN (FORMAT csv, HEADER)") as copy:
            copy.write(data)
        assert connection.execute("SELECT * FROM back").fetchall() == [("", None, "NULL", "\\N", " ")]


@pytest.mark.parametrize(
    "select", ["SELECT NULL::text AS a UNION ALL SELECT ''", r"SELECT '\.' AS a", "SELECT '\\.' a, 1 b"]
)
def test_one_column_alone(export, select):
    assert export(select).data == export.copy(select)


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_case_11_separators_and_line_breaks(export, delimiter):
    data = export(C11, options={"delimiter": delimiter}).data
    header, record = csv.reader(io.StringIO(data.decode(), newline=""), delimiter=delimiter)
    assert header == ["a,b", 'say "hi"', " lead", "SELECT", "Größe", "g", "h"]
    assert record == ["p\rq", "r\ns", "t\r\nu", 'v "w"', "x,y", "\tz", "😀\u2028"]


def test_case_11_bytes(export):
    assert export(C11).data == export.copy(C11)
    assert export(C11).data.decode().splitlines()[0] == '"a,b","say ""hi""", lead,SELECT,Größe,g,h'


@pytest.mark.parametrize("format_", ["csv", "json"])
@pytest.mark.parametrize("method", ["gzip", "zstd"])
def test_compression(export, format_, method):
    select = "SELECT i, md5(i::text) AS t FROM generate_series(1, 5000) i"
    plain = export(select, format_).data
    packed = export(select, format_, options={"compression": method})
    name = packed.produced.files[0].s3_key
    assert name.endswith({"gzip": ".gz", "zstd": ".zst"}[method])
    if method == "gzip":
        assert gzip.decompress(packed.data) == plain
    else:
        with pa.CompressedInputStream(pa.BufferReader(packed.data), "zstd") as stream:
            assert stream.read() == plain
    assert len(packed.data) < len(plain)


EVERYTHING = """SELECT true AS b, 1::int2 AS i2, '-2147483648'::int4 AS i4, 4294967295::oid AS o, 0.1::float4 AS f4,
1e15::float8 AS f8, 1234567::float4 AS f4e, 1e-5::float8 AS f8e, 'x  '::char(5) AS bp, 'n'::name AS nm,
'q'::"char" AS c1, '\\x00ff'::bytea AS by, '24:00'::time AS tm,
'04:05:06.7'::time AS tf, '12:00+02'::timetz AS tz, '1.5'::money AS mo,
'{{1,2},{3,NULL}}'::int4[] AS a2, '[0:1]={a,"b,c"}'::text[] AS a0, '{}'::date[] AS a, '1.2.3.4'::inet AS ip,
'10.0.0.0/8'::cidr AS net, '08:00:2b:01:02:03'::macaddr AS mac, '101'::bit(3) AS bits, '[1,5)'::int4range AS r,
'{[1,2),[5,6)}'::int4multirange AS mr, (1, 'a b', NULL) AS rec, 'a b'::tsvector AS tsv, '(1,2)'::point AS pt,
'pg_class'::regclass AS rc, 'sad'::mood AS en, '{sad,ok}'::mood[] AS ens, 7::posint AS dom, '1.50'::price AS dom2,
ROW(1, NULL)::pair AS co, ROW(NULL, NULL)::pair AS coe, NULL::pair AS con, '$.a[*]'::jsonpath AS jp,
'a1'::text COLLATE "C" AS t, 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'::uuid AS u, NULL::uuid AS nu,
'2026-01-01 00:00:00.100000+00'::timestamptz AS ts"""


@pytest.fixture
def everything(export):
    export.sql(
        "CREATE TYPE mood AS ENUM ('sad', 'ok')",
        "CREATE DOMAIN posint AS int CHECK (VALUE > 0)",
        "CREATE DOMAIN price AS numeric(9,2)",
        "CREATE TYPE pair AS (a int, b text)",
    )
    return export


def test_every_type_prints_as_copy_does(everything):
    assert everything(EVERYTHING).data.decode() == everything.copy(EVERYTHING).decode()


def test_every_type_is_null_when_null(everything):
    nulls = f"SELECT q.* FROM (SELECT 1) one LEFT JOIN ({EVERYTHING}) q ON false"
    assert everything(nulls).data == everything.copy(nulls)
    (row,) = everything(nulls, "json").data.decode().splitlines()
    assert set(json.loads(row).values()) == {None}
