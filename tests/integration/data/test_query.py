from __future__ import annotations

from itertools import chain

import polars as pl
import pyarrow.parquet as pq
import pytest
from pandera.polars import DataFrameModel, Field

from outhaul.data.catalog import Dataset, Table, ad_hoc
from outhaul.data.scan import scan_postgres
from outhaul.domain.request import parse_query
from outhaul.errors import InvalidRequest


def ids(export, source, where=None, **query) -> list[int]:
    if where is not None:
        query["filters"] = where
    data = export(source, query={"columns": ["id"], **query}).data
    return [int(line) for line in data.decode().splitlines()[1:]]


@pytest.mark.parametrize(
    ("op", "value", "found"),
    [
        ("contains", "5_0", ["5_0"]),
        ("contains", "%", ["50%"]),
        ("contains", "\\", ["a\\b", "A\\B"]),
        ("starts_with", "50%", ["50%"]),
        ("icontains", "A\\b", ["a\\b", "A\\B"]),
        ("ends_with", "0", ["500", "5_0"]),
        ("contains", "a", ["a\\b"]),
    ],
)
def test_case_22_wildcards_are_plain_text(export, op, value, found):
    export.sql("CREATE TABLE c22 (t text)", r"INSERT INTO c22 VALUES ('50%'),('500'),('5_0'),('a\b'),('A\B')")
    data = export("SELECT * FROM c22", query={"filters": {"column": "t", "op": op, "value": value}}).data
    assert sorted(data.decode().splitlines()[1:]) == sorted(found)


C24 = (
    "CREATE TABLE c24 AS SELECT row_number() OVER (ORDER BY t)::int AS id, t AS at, t AT TIME ZONE 'UTC' AS wall, "
    "(t AT TIME ZONE 'UTC')::date AS d "
    "FROM generate_series('2026-06-29 22:00+00'::timestamptz,'2026-07-01 21:00+00','1 hour') t"
)


@pytest.mark.parametrize(
    ("column", "zone", "first", "last"),
    [
        ("at", "Europe/Berlin", 1, 24),
        ("at", "UTC", 3, 26),
        ("at", None, 3, 26),
        ("wall", "Europe/Berlin", 3, 26),
        ("d", "America/Los_Angeles", 3, 26),
    ],
)
def test_case_24_on_that_day(export, column, zone, first, last):
    export.sql(C24)
    for value in ("2026-06-30", ["2026-06-30", "2026-06-30"]):
        where = {"column": column, "op": "on", "value": value, "zone": zone}
        assert ids(export, "SELECT * FROM c24", where, sort=[{"column": "id"}]) == list(range(first, last + 1))


def test_case_24_before_and_after_a_day_leave_nothing_out(export):
    export.sql(C24)
    parts = [
        ids(export, "SELECT * FROM c24", {"column": "at", "op": op, "value": "2026-06-30", "zone": "Asia/Kolkata"})
        for op in ("before", "on", "after")
    ]
    assert sorted(chain(*parts)) == list(range(1, 49))
    assert [len(part) for part in parts] == [0, 21, 27]  # the day began at 18:30Z, before the first row


def test_case_25_nulls_last_and_each_row_once(export):
    export.sql(
        "CREATE TABLE c25(id int PRIMARY KEY, s text)",
        "INSERT INTO c25 VALUES (1,'b'),(2,NULL),(3,'a'),(4,NULL),(5,'b')",
    )
    by = [{"column": "s"}, {"column": "id"}]
    assert ids(export, "SELECT * FROM c25", sort=by) == [3, 1, 5, 2, 4]
    by[0]["nulls"] = "first"
    assert ids(export, "SELECT * FROM c25", sort=by) == [2, 4, 3, 1, 5]
    by[0] = {"column": "s", "descending": True}
    assert ids(export, "SELECT * FROM c25", sort=by, limit=3) == [1, 5, 3]


C26 = """SELECT 10 % 3 AS m, 'a%b' AS p, '12:30:00'::time AS t, ':x' AS c, '{"a":1}'::jsonb ? 'a' AS q,
'x;y' AS s; -- done"""


def test_case_26_percent_colon_question_mark(export):
    assert export(C26).data.decode().splitlines()[1] == "1,a%b,12:30:00,:x,t,x;y"
    narrowed = export(
        C26, query={"columns": ["s", "m"], "limit": 5, "filters": {"column": "p", "op": "=", "value": "a%b"}}
    )
    assert narrowed.data == b"s,m\nx;y,1\n"


def test_filters_are_two_valued(export):
    export.sql("CREATE TABLE f (id int, a int, t text)", "INSERT INTO f VALUES (1,1,'x'),(2,2,NULL),(3,NULL,'y')")
    one = {"column": "a", "op": "=", "value": 1}
    for where, found in [
        (one, [1]),
        ({"column": "a", "op": "!=", "value": 1}, [2, 3]),
        ({"not": one}, [2, 3]),
        ({"not": {"not": one}}, [1]),
        ({"column": "a", "op": "not_in", "value": [1, 2]}, [3]),
        ({"column": "a", "op": "in", "value": []}, []),
        ({"column": "a", "op": "not_in", "value": []}, [1, 2, 3]),
        ({"not": {"and": [one, {"column": "t", "op": "=", "value": "x"}]}}, [2, 3]),
        ({"not": {"or": [{"column": "a", "op": ">", "value": 1}, {"column": "t", "op": "=", "value": "y"}]}}, [1]),
        ({"column": "a", "op": "between", "value": [1, 2]}, [1, 2]),
        ({"column": "t", "op": "is_null"}, [2]),
        ({"column": "t", "op": "not_null"}, [1, 3]),
    ]:
        assert ids(export, "SELECT * FROM f", where, sort=[{"column": "id"}]) == found, where


TYPED = {
    "i": ("int2", 7), "n": ("numeric(9,2)", "7.00"), "f": ("float4", 0.1), "d": ("date", "2026-02-03"),
    "ts": ("timestamptz", "2026-02-03T05:05:06+01:00"), "w": ("timestamp", "2026-02-03T04:05:06"),
    "c": ("char(5)", "ab"),
    "u": ("uuid", "A0EEBC99-9c0b-4ef8-bb6d-6bb9bd380a11"), "e": ("mood", "sad"), "b": ("bool", True),
    "tm": ("time", "04:05:06"), "ip": ("inet", "1.2.3.4"), "j": ("jsonb", '{"a": 1}'),
}  # fmt: skip


@pytest.mark.parametrize("name", TYPED)
def test_equality_on_every_type(export, name):
    kind, value = TYPED[name]
    export.sql("CREATE TYPE mood AS ENUM ('sad', 'ok')", f"CREATE TABLE e (id int, x {kind})")
    export.sql(f"INSERT INTO e VALUES (1, '{value}'), (2, NULL)")
    assert ids(export, "SELECT * FROM e", {"column": "x", "op": "=", "value": value}) == [1]
    assert ids(export, "SELECT * FROM e", {"column": "x", "op": "in", "value": [value, value]}) == [1]


@pytest.mark.parametrize(
    "value", ["'; DROP TABLE v; --", 'a","b', "{a,b}", "\\", "", "NULL", "$$", "%s", ":x", "ü😀\n"]
)
def test_a_value_is_never_sql(export, value):
    export.sql("CREATE TABLE v (id int, t text)", "INSERT INTO v VALUES (1, 'other')")
    with __import__("psycopg").connect(export.url, autocommit=True) as connection:
        connection.execute("INSERT INTO v VALUES (2, %s)", [value])
    for op, given in (("=", value), ("in", [value, "none"]), ("starts_with", value), ("contains", value)):
        found = ids(export, "SELECT * FROM v", {"column": "t", "op": op, "value": given})
        assert 2 in found
        assert (1 in found) == (value == "" and op in {"starts_with", "contains"})


class Flights(DataFrameModel):
    id: pl.Int32
    carrier: str
    delay: pl.Int32 = Field(nullable=True)


FLIGHTS = Dataset("flights", Table("public.flights"), Flights, tenant="carrier")


def test_a_tenant_sees_its_rows_only(export):
    export.sql(
        "CREATE TABLE flights (id int NOT NULL, carrier char(2) NOT NULL, delay int)",
        "INSERT INTO flights SELECT i, (ARRAY['UA','AA'])[1 + i % 2], NULLIF(i % 7, 0) FROM generate_series(1,100) i",
    )
    everything = {"or": [{"column": "delay", "op": "is_null"}, {"column": "delay", "op": "not_null"}]}
    other = {"column": "carrier", "op": "=", "value": "AA"}
    mine = {"column": "carrier", "op": "=", "value": "UA"}
    for where in (everything, {"not": {"not": everything}}, {"or": [other, everything]}, {"not": mine}, other):
        data = export(FLIGHTS, query={"filters": where}, tenant="UA").data.decode()
        assert {line.split(",")[1] for line in data.splitlines()[1:]} <= {"UA"}
    assert len(export(FLIGHTS, tenant="UA").data.splitlines()) == 51
    assert export(FLIGHTS, tenant="UA' OR '1'='1").produced.rows == 0
    with pytest.raises(InvalidRequest, match="tenant"):
        export(FLIGHTS)


@pytest.mark.parametrize("format_", ["csv", "json", "parquet"])
def test_case_55_no_silent_limit(export, format_):
    result = export("SELECT i FROM generate_series(1,120000) i", format_)
    assert result.produced.rows == result.produced.files[0].row_count == 120_000
    if format_ == "parquet":
        import io

        assert pq.ParquetFile(io.BytesIO(result.data)).metadata.num_rows == 120_000
    else:
        assert result.data.count(b"\n") == 120_000 + (format_ == "csv")
    assert export("SELECT i FROM generate_series(1,120000) i", format_, {"limit": 10}).produced.rows == 10


def test_lazy_source(export):
    export.sql("CREATE TABLE l AS SELECT i AS id, i % 10 AS g, md5(i::text) AS t FROM generate_series(1,5000) i")
    lazy = scan_postgres(export.url, ad_hoc("SELECT * FROM l"), parse_query({"sort": [{"column": "id"}]}))
    assert lazy.collect_schema() == {"id": pl.Int32, "g": pl.Int32, "t": pl.String}
    assert lazy.select("g").head(3).collect().rows() == [(1,), (2,), (3,)]
    assert lazy.filter(pl.col("g") == 3).head(2).collect()["id"].to_list() == [3, 13]
    assert lazy.select(pl.len()).collect().item() == 5000
