from __future__ import annotations

import csv
import io
import json
import runpy
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Annotated

import duckdb
import pandera.polars as pa_polars
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from outhaul.data.catalog import load_catalog
from outhaul.data.introspect import declare
from outhaul.errors import ContractViolation, UnrepresentableValue

C01 = (
    "CREATE TABLE c01 (id int PRIMARY KEY, valid_to timestamptz, seen timestamp, d date)",
    "INSERT INTO c01 VALUES (1,'infinity','-infinity','infinity'), (2,'2026-02-03 04:05:06+00',NULL,'2026-02-03')",
)


DOCS = Path(__file__).parents[3] / "docs"


def lines(result) -> list[dict]:
    return [json.loads(line, parse_float=Decimal) for line in result.data.decode().splitlines()]


def parquet(result) -> pa.Table:
    return pq.read_table(io.BytesIO(result.data))


def test_case_01_infinity(export):
    export.sql(*C01)
    select = "SELECT * FROM c01 ORDER BY id"
    csv = export(select).data
    assert csv == export.copy(select)
    assert csv.decode().splitlines()[1:] == ["1,infinity,-infinity,infinity", "2,2026-02-03 04:05:06+00,,2026-02-03"]
    assert lines(export(select, "json")) == [
        {"id": 1, "valid_to": "infinity", "seen": "-infinity", "d": "infinity"},
        {"id": 2, "valid_to": "2026-02-03T04:05:06+00:00", "seen": None, "d": "2026-02-03"},
    ]


def test_case_01_infinity_in_parquet_follows_the_policy(export, store):
    export.sql(*C01)
    select = "SELECT * FROM c01 ORDER BY id"
    with pytest.raises(UnrepresentableValue, match="'valid_to' holds infinity"):
        export(select, "parquet", store=store)
    assert store.files == {}
    nulled = export(select, "parquet", options={"unrepresentable": "null"})
    assert nulled.produced.replaced == {"valid_to": 1, "seen": 1, "d": 1}
    assert nulled.produced.manifest["unrepresentable"]["replaced"] == {"valid_to": 1, "seen": 1, "d": 1}
    assert parquet(nulled).column("d").to_pylist() == [None, date(2026, 2, 3)]
    texts = export(select, "parquet", options={"unrepresentable": "text"})
    assert parquet(texts).column("valid_to").to_pylist() == ["infinity", "2026-02-03 04:05:06+00"]
    assert parquet(texts).column("id").to_pylist() == [1, 2]


def test_case_02_far_years(export):
    export.sql(
        "CREATE TABLE c02 (id int, d date, ts timestamptz)",
        "INSERT INTO c02 VALUES (1,'0044-03-15 BC','0001-12-31 23:40:28+00 BC'), "
        "(2,'5874897-12-31','12026-01-01 00:00:00+00'), (3,'2026-01-01','294276-12-31 23:59:59.999999+00')",
    )
    select = "SELECT * FROM c02 ORDER BY id"
    assert export(select).data == export.copy(select)
    assert [row["ts"] for row in lines(export(select, "json"))] == [
        "0001-12-31T23:40:28+00:00 BC", "12026-01-01T00:00:00+00:00", "294276-12-31T23:59:59.999999+00:00",
    ]  # fmt: skip
    with pytest.raises(UnrepresentableValue, match="'ts' holds 294276-12-31"):
        export(select, "parquet")
    table = parquet(export(select, "parquet", options={"unrepresentable": "null"}))
    assert table.column("d").cast(pa.int32()).to_pylist() == [-735160, 2145042905, 20454]
    assert table.column("ts").cast(pa.int64()).to_pylist() == [-62135597972000000, 317336745600000000, None]


def test_case_03_numeric_nan(export):
    export.sql(
        "CREATE TABLE c03 (id int, fee numeric(12,3), free numeric)",
        "INSERT INTO c03 VALUES (1,'NaN','NaN'),(2,7.250,'Infinity'),(3,NULL,'-Infinity')",
    )
    select = "SELECT * FROM c03 ORDER BY id"
    assert export(select).data.decode().splitlines()[1:] == ["1,NaN,NaN", "2,7.250,Infinity", "3,,-Infinity"]
    assert [(row["fee"], row["free"]) for row in lines(export(select, "json"))] == [
        ("NaN", "NaN"), (Decimal("7.250"), "Infinity"), (None, "-Infinity"),
    ]  # fmt: skip
    with pytest.raises(UnrepresentableValue, match="'fee' holds NaN"):
        export(select, "parquet")
    nulled = export(select, "parquet", options={"unrepresentable": "null"})
    assert nulled.produced.replaced == {"fee": 1}
    assert parquet(nulled).column("free").to_pylist() == ["NaN", "Infinity", "-Infinity"]


def test_case_04_long_numeric(export):
    export.sql(
        "CREATE TABLE c04 (id int, a numeric, b numeric(50,20), c numeric(10,4))",
        "INSERT INTO c04 VALUES (1,1.10,123456789012345678901234567890.12345678901234567890,0),"
        "(2,0.0000001,-0.5,12.5),(3,100000000000000000000,1,1)",
    )
    select = "SELECT * FROM c04 ORDER BY id"
    assert export(select).data == export.copy(select)
    text = export(select, "json").data.decode()
    assert (
        text.splitlines()[0] == '{"id":1,"a":1.10,"b":123456789012345678901234567890.12345678901234567890,"c":0.0000}'
    )
    assert '"a":0.0000001,"b":-0.50000000000000000000,"c":12.5000' in text
    table = parquet(export(select, "parquet"))
    assert table.column("a").to_pylist() == ["1.10", "0.0000001", "100000000000000000000"]
    assert table.column("c").to_pylist() == [Decimal("0.0000"), Decimal("12.5000"), Decimal("1.0000")]


def test_case_06_intervals(export):
    select = (
        "SELECT interval '1 mon' AS a, interval '30 days' AS b, interval '720 hours' AS c, "
        "interval '1 year 2 mons -3 days +04:05:06.789' AS d, interval '-1 second' AS e"
    )
    right = ["1 mon", "30 days", "720:00:00", "1 year 2 mons -3 days +04:05:06.789", "-00:00:01"]
    assert export(select).data.decode().splitlines()[1] == ",".join(right)
    assert list(lines(export(select, "json"))[0].values()) == right
    assert [column[0].as_py() for column in parquet(export(select, "parquet")).columns] == right


def test_case_14_json_documents(export):
    select = (
        "SELECT 9223372036854775807::int8 AS big, "
        """'{"z":12345678901234567890123.4500,"a":[1e2,0.10]}'::jsonb AS doc, """
        """'{"k":1,"j":2,"j":3}'::json AS raw, '{"bb":1,"a":2}'::jsonb AS ord"""
    )
    line = export(select, "json").data.decode()
    assert line == (
        '{"big":9223372036854775807,"doc":{"a": [100, 0.10], "z": 12345678901234567890123.4500},'
        '"raw":{"k":1,"j":2,"j":3},"ord":{"a": 2, "bb": 1}}\n'
    )
    assert export(select).data == export.copy(select)
    assert parquet(export(select, "parquet")).column("raw").to_pylist() == ['{"k":1,"j":2,"j":3}']


def test_case_15_floats(export):
    select = (
        "SELECT * FROM (VALUES (1,'NaN'::float8),(2,'Infinity'),(3,'-Infinity'),(4,'-0.0'),(5,NULL),(6,5e-324),"
        "(7,1.7976931348623157e308)) t(id,f)"
    )
    assert export(select).data == export.copy(select)
    values = [json.loads(line)["f"] for line in export(select, "json").data.decode().splitlines()]
    assert values[:3] == ["NaN", "Infinity", "-Infinity"]
    assert str(values[3]) == "-0.0"
    assert values[4:] == [None, 5e-324, 1.7976931348623157e308]
    single = "SELECT 0.1::float4 AS f"
    assert export(single).data == b"f\n0.1\n"
    assert export(single, "json").data == b'{"f":0.1}\n'


def test_case_16_line_separators(export):
    select = (
        "SELECT i AS id, 'one'||U&'\\2028'||'two'||U&'\\0085'||'three'||U&'\\2029'||E'four\\nfive\\x01' AS note "
        "FROM generate_series(1,2) i"
    )
    data = export(select, "json").data
    assert data.endswith(b"\n")
    assert data.count(b"\n") == 2
    assert len(data.decode().splitlines()) == 2
    assert {row["note"] for row in lines(export(select, "json"))} == {"one\u2028two\u0085three\u2029four\nfive\x01"}


def test_case_18_decimals(export, tmp_path):
    export.sql(
        "CREATE TABLE c18 (a numeric(50,2), b numeric, c numeric(38,10), d numeric(5,-2), e numeric(3,5))",
        "INSERT INTO c18 VALUES (99999999999999999999999999999999999999999999999.25, 1.5, "
        "1234567890123456789012345678.0123456789, 12345, 0.00123)",
    )
    result = export("SELECT * FROM c18", "parquet")
    table = parquet(result)
    assert [str(field.type) for field in table.schema] == [
        "string", "string", "decimal128(38, 10)", "decimal128(7, 0)", "decimal128(5, 5)",
    ]  # fmt: skip
    row = [
        "99999999999999999999999999999999999999999999999.25", "1.5",
        Decimal("1234567890123456789012345678.0123456789"), Decimal(12300), Decimal("0.00123"),
    ]  # fmt: skip
    assert [column[0].as_py() for column in table.columns] == row
    assert list(pl.read_parquet(result.data).row(0)) == row
    (tmp_path / "t.parquet").write_bytes(result.data)
    assert list(duckdb.sql(f"FROM '{tmp_path}/t.parquet'").fetchall()[0]) == row
    assert parquet(export("SELECT * FROM c18 WHERE false", "parquet")).schema.equals(table.schema)


def test_case_19_microseconds(export, tmp_path):
    select = (
        "SELECT * FROM (VALUES ('9999-12-31 23:59:59.999999+00'::timestamptz),('0001-01-01 00:00:00+00'),"
        "('1600-01-01 00:00:00+00'),('2262-04-12 00:00:00+00')) t(ts)"
    )
    result = export(select, "parquet")
    table = parquet(result)
    right = [253402300799999999, -62135596800000000, -11676096000000000, 9223372800000000]
    assert table.schema.field("ts").type == pa.timestamp("us", tz="UTC")
    assert table.column("ts").cast(pa.int64()).to_pylist() == right
    assert pl.read_parquet(result.data)["ts"].cast(pl.Int64).to_list() == right
    path = tmp_path / "t.parquet"
    path.write_bytes(result.data)
    assert [row[0] for row in duckdb.sql(f"SELECT epoch_us(ts) FROM '{path}'").fetchall()] == right


def test_case_21_nothing_to_export(export):
    select = "SELECT 1::int8 AS n, timestamptz '2026-01-01 00:00+00' AS t, 1.5::numeric(9,2) AS m"
    none = f"{select} WHERE false"
    assert export(none).data == b"n,t,m\n"
    assert export(none, "json").data == b""
    assert json.loads(export(none, "json", options={"layout": "array"}).data) == []
    empty = export(none, "parquet")
    assert empty.produced.rows == 0
    assert parquet(empty).schema.equals(parquet(export(select, "parquet")).schema)
    assert [str(field.type) for field in parquet(empty).schema] == [
        "int64", "timestamp[us, tz=UTC]", "decimal128(9, 2)",
    ]  # fmt: skip
    table = parquet(export("SELECT NULL::timestamptz AS t, 1 AS n", "parquet"))
    assert table.schema.field("t").type == pa.timestamp("us", tz="UTC")
    assert table.column("t").null_count == 1


LISTS = (
    "CREATE TABLE lists (id int, d date[], ts timestamptz[], n numeric(10,2)[], u uuid[])",
    (
        "INSERT INTO lists VALUES (1, '{2026-02-03,NULL,0044-03-15 BC,5874897-12-31}', "
        "'{0001-12-31 23:40:28+00 BC,12026-01-01 00:00:00+00}', '{1.50,NULL}', "
        "'{a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11}'), "
        "(2, '{}', '{}', '{}', '{}'), (3, NULL, NULL, NULL, NULL), (4, '{NULL}', '{NULL}', '{NULL}', '{NULL}'), "
        "(5, '{2026-02-03,infinity}', '{294276-12-31 23:59:59.999999+00}', '{NaN,2}', '{{NULL}}'), "
        "(6, '{{2026-02-03}}', '[2:2]={2026-02-03}', '[0:0]={3}', '[0:0]={NULL}'), "
        "(7, '{2026-02-03}', '{}', '{4}', NULL)"
    ),
)
READ_LISTS = "SELECT * FROM lists ORDER BY id"


def test_lists_hold_what_their_elements_can(export):
    export.sql(*LISTS)
    nulled = export(READ_LISTS, "parquet", options={"unrepresentable": "null"})
    table = parquet(nulled)
    assert [str(field.type) for field in table.schema] == [
        "int32", "list<element: date32[day]>", "list<element: timestamp[us, tz=UTC]>", "list<element: string>",
        "list<element: string>",
    ]  # fmt: skip
    assert nulled.produced.replaced == {"d": 2, "ts": 2, "n": 1, "u": 2}
    assert table["d"].cast(pa.list_(pa.int32())).to_pylist() == [
        [20487, None, -735160, 2145042905], [], None, [None], None, None, [20487],
    ]  # fmt: skip
    assert table["ts"].cast(pa.list_(pa.int64())).to_pylist() == [
        [-62135597972000000, 317336745600000000], [], None, [None], None, None, [],
    ]  # fmt: skip
    assert table["n"].to_pylist() == [["1.50", None], [], None, [None], ["NaN", "2.00"], None, ["4.00"]]


@pytest.mark.parametrize(
    ("row", "column", "value"),
    [
        (5, "d", r"\{2026-02-03,infinity\}"),
        (5, "ts", r"\{294276-12-31 23:59:59.999999\+00\}"),
        (6, "d", r"\{\{2026-02-03\}\}"),
        (6, "n", r"\[0:0\]=\{3.00\}"),
    ],
)
def test_a_list_that_is_none_fails_unless_asked_for(export, row, column, value):
    export.sql(*LISTS)
    with pytest.raises(UnrepresentableValue, match=f"{column!r} holds {value}, which List"):
        export(f"SELECT {column} FROM lists WHERE id = {row}", "parquet")


def test_lists_as_text(export):
    export.sql(*LISTS)
    table = parquet(export(READ_LISTS, "parquet", options={"unrepresentable": "text"}))
    assert {str(field.type) for field in table.schema} == {"int32", "string"}
    assert table["d"].to_pylist()[4:] == ["{2026-02-03,infinity}", "{{2026-02-03}}", "{2026-02-03}"]
    assert table["n"].to_pylist()[4:] == ["{NaN,2.00}", "[0:0]={3.00}", "{4.00}"]


def test_lists_survive_a_change_of_file(export):
    export.sql(*LISTS)
    result = export(READ_LISTS, "parquet", options={"unrepresentable": "null", "max_rows_per_file": 2})
    tables = [pq.read_table(io.BytesIO(result.store.files[file.s3_key])) for file in result.produced.files]
    whole = parquet(export(READ_LISTS, "parquet", options={"unrepresentable": "null"}))
    assert pa.concat_tables(table.replace_schema_metadata() for table in tables).equals(whole.replace_schema_metadata())
    assert result.produced.replaced == {"d": 2, "ts": 2, "n": 1, "u": 2}


class Promised(pa_polars.DataFrameModel):
    id: pl.Int64
    d: Annotated[pl.List, pl.Date()] = pa_polars.Field(nullable=True)
    ts: Annotated[pl.List, pl.Datetime("us", "UTC")] = pa_polars.Field(nullable=True)
    n: Annotated[pl.List, pl.Decimal(12, 2)] = pa_polars.Field(nullable=True)
    u: Annotated[pl.List, pl.String()] = pa_polars.Field(nullable=True)


def test_a_contract_says_what_lists_hold(export):
    export.sql(*LISTS)
    result = export(READ_LISTS, "parquet", contract=Promised, options={"unrepresentable": "null"})
    table = parquet(result)
    assert str(table.schema.field("n").type) == "list<element: decimal128(12, 2)>"
    assert table["n"].to_pylist() == [[Decimal("1.50"), None], [], None, [None], None, None, [Decimal("4.00")]]
    assert result.produced.replaced == {"d": 2, "ts": 2, "n": 2, "u": 2}
    assert export(READ_LISTS, contract=Promised).data == export.copy(READ_LISTS)
    export.sql("ALTER TABLE lists ALTER n TYPE interval[] USING NULL")
    with pytest.raises(ContractViolation, match=r"column 'n' is interval\[\], which does not fit the promised List"):
        export(READ_LISTS, contract=Promised)


def test_documents_stay_on_their_lines(export):
    select = (
        r"""SELECT E'{"a":\n1,\r\n"b": "x\\ny"}'::json AS one, array[E'[\n]'::json] AS many, row(E'[\n]'::json) AS r"""
    )
    assert export(select, "json").data == b'{"one":{"a": 1,  "b": "x\\ny"},"many":[[ ]],"r":{"f1":[ ]}}\n'
    assert export(select).data == export.copy(select)


def test_the_page_of_types_tells_the_truth(export):
    page = runpy.run_path(str(DOCS / "make.py"))
    # No server at hand reads XML; test_round_trip.py has it.
    examples = [example for example in page["EXAMPLES"] if example.sql != "xml"]
    export.sql("CREATE TYPE mood AS ENUM ('sad')", "CREATE TYPE pair AS (a int, b text)")
    types = {"enum": "mood", "composite": "pair"}
    shown = [
        (types.get(example.sql, example.sql), example, i) for example in examples for i in range(len(example.wire))
    ]
    values = ((example.csv[i].replace("'", "''"), sql) for sql, example, i in shown)
    select = "SELECT " + ", ".join(f"CAST('{value}' AS {sql}) AS c{n}" for n, (value, sql) in enumerate(values))
    _, row = csv.reader(io.StringIO(export(select).data.decode()))
    assert row == [example.csv[i] for _, example, i in shown]
    told = ",".join(f'"c{n}":{example.json[i]}' for n, (_, example, i) in enumerate(shown))
    assert export(select, "json").data.decode() == f"{{{told}}}\n"
    result = export(select, "parquet", options={"unrepresentable": "null"})
    schema = pq.ParquetFile(io.BytesIO(result.data)).schema
    found = [page["parquet_type"](schema.column(n)) for n in range(len(shown))]
    assert found == [example.parquet for _, example, _ in shown]
    lost = {
        n for n, (_, example, i) in enumerate(shown) if example.csv[i] in example.lacks.replace("`", "").split(", ")
    }
    assert {int(name[1:]) for name in result.produced.replaced} == lost


def test_a_declared_table_keeps_its_lists(export, tmp_path, monkeypatch):
    export.sql(*LISTS, "ALTER TABLE lists ADD by bytea[], ADD w timestamp[], ADD t time[], ADD tenant_id int")
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "declared_lists.py").write_text(declare(export.url, "lists"))
    dataset = load_catalog("declared_lists").get("lists")
    inner = {column.name: column.dtype.inner for column in dataset.columns if column.dtype.is_nested()}
    assert inner == {
        "d": pl.Date(), "ts": pl.Datetime("us", "UTC"), "n": pl.String(), "u": pl.String(), "by": pl.Binary(),
        "w": pl.Datetime("us"), "t": pl.Time(),
    }  # fmt: skip
    assert export(dataset, "parquet", tenant="1").produced.notes == ()
