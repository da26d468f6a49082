"""Whatever a column holds, the readers of each format give it back: PostgreSQL, PyArrow, DuckDB, pandas, Polars.

One table holds a column of every type with the extremes among its values. It is exported once a format. What each
reader finds is loaded back into PostgreSQL, which compares it with the source bit by bit: 1.0 is not 1.00, nor 0 -0.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import date, time
from decimal import Decimal
from typing import TYPE_CHECKING, Any
from uuid import UUID

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import psycopg
import pyarrow as pa
import pyarrow.csv
import pyarrow.json
import pyarrow.parquet as pq
import pytest

from outhaul.data.catalog import ad_hoc
from outhaul.data.export import Export
from outhaul.data.pgtypes import TYPES
from outhaul.data.readers import Attempt
from outhaul.domain.job import Format
from outhaul.domain.request import ExportRequest, parse_options, parse_query
from outhaul.store.local import LocalStore

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

DAY_US = 86_400_000_000


@dataclass(frozen=True)
class Kind:
    """A column: its type, values, those of them that Parquet cannot hold, and those that JSON tells differently."""

    sql: str
    usual: list[str]
    odd: list[str] = field(default_factory=list)
    json: dict[str, str | None] = field(default_factory=dict)

    @property
    def all(self) -> list[str]:
        return self.usual + self.odd


TEXTS = [
    "",
    " ",
    "NULL",
    r"\N",
    r"\.",
    "a,b;c",
    'q"q',
    "l\nf",
    "cr\r\nlf",
    "\t",
    "Größe 😀",
    "\u2028\x85\x01\x7f",
    "=1",
]
FLOATS = ["0", "-0", "0.1", "1e15", "123456789012345680", "-1.5", "NaN", "Infinity", "-Infinity"]
TIMES = ["00:00:00", "04:05:06.7", "23:59:59.999999"]
STAMPS = ["2026-02-03 04:05:06", "1600-02-29 00:00:00.000001", "0001-01-01 00:00", "9999-12-31 23:59:59.999999"]
LAST = "294247-01-10 04:00:54.775807"
FAR = ["4714-11-24 00:00:00 BC", "0001-12-31 23:40:28 BC", "12026-01-01 00:00:00", LAST]
TOO_FAR = ["infinity", "-infinity", "294247-01-10 04:00:54.775808", "294276-12-31 23:59:59.999999"]
NESTED = ["{{%s},{NULL}}", "[0:0]={%s}"]  # arrays that are no lists


def item(value: str | None) -> str:
    """An element in an array's notation."""
    return "NULL" if value is None else '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'


def array(sql: str, values: list[str], odd: list[str] | None = None) -> Kind:
    """Arrays of a type that are lists in Parquet, and some that are not."""
    quoted = [item(value) for value in values]
    nested = [shape % quoted[0] for shape in NESTED]
    lost = [f'{{NULL,{quoted[0]},"{value}"}}' for value in odd or []]
    # A JSON array has no bounds of its own.
    return Kind(
        f"{sql}[]",
        ["{}", "{NULL}", f"{{{','.join(quoted)},NULL}}", f"{{{quoted[-1]}}}"],
        nested + lost,
        {nested[1]: f"{{{quoted[0]}}}"},
    )


def flat(sql: str, values: list[str]) -> Kind:
    """Arrays of a type that are text in Parquet, so that none is odd."""
    lists = array(sql, values)
    return Kind(lists.sql, lists.all, json=lists.json)


KINDS = {
    "bool": Kind("bool", ["t", "f"]),
    "int2": Kind("int2", ["-32768", "0", "32767"]),
    "int4": Kind("int4", ["-2147483648", "2147483647"]),
    "int8": Kind("int8", ["-9223372036854775808", "9223372036854775807", "9007199254740993"]),
    "oid": Kind("oid", ["0", "4294967295"]),
    "float4": Kind("float4", [*FLOATS, "3.4028235e38", "1e-45", "16777217", "1234567"]),
    "float8": Kind("float8", [*FLOATS, "1.7976931348623157e308", "5e-324", "9007199254740993", "1e-5"]),
    "numeric": Kind(
        "numeric",
        ["1.10", "0.0000", "1e-40", "12345678901234567890123456789012345678901234567890.5", "NaN", "Infinity", "-1"],
    ),
    "numeric_10_2": Kind("numeric(10,2)", ["0", "-0.01", "99999999.99", "7.1"], ["NaN"]),
    "numeric_38_10": Kind("numeric(38,10)", ["1234567890123456789012345678.0123456789", "-1"], ["NaN"]),
    "numeric_38_0": Kind("numeric(38)", ["9" * 38, "-" + "9" * 38], ["NaN"]),
    "numeric_50_20": Kind("numeric(50,20)", ["123456789012345678901234567890.12345678901234567890", "NaN"]),
    "numeric_5_m2": Kind("numeric(5,-2)", ["1234500", "-100"], ["NaN"]),
    "numeric_3_5": Kind("numeric(3,5)", ["0.00123"], ["NaN"]),
    "text": Kind("text", TEXTS),
    "varchar": Kind("varchar(20)", TEXTS),
    "bpchar": Kind("char(5)", ["a", "", "é  x"]),
    "name": Kind("name", ["n", "", "a b"]),
    "char": Kind('"char"', ["q", "", r"\377", '"']),
    "bytea": Kind("bytea", [r"\x", r"\x00ff", r"\x5c22"]),
    "uuid": Kind("uuid", ["a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", "00000000-0000-0000-0000-000000000000"]),
    "date": Kind("date", ["2026-02-03", "0001-01-01", "9999-12-31", "1969-12-31"], ["infinity", "-infinity"]),
    "date_far": Kind("date", ["4714-11-24 BC", "0044-03-15 BC", "12026-01-01", "5874897-12-31"]),
    "time": Kind("time", TIMES, ["24:00:00"]),
    "timetz": Kind("timetz", ["12:00+02", "24:00:00-15:59", "00:00:00.000001+00"]),
    "timestamp": Kind("timestamp", STAMPS, TOO_FAR),
    "timestamp_far": Kind("timestamp", FAR),
    "timestamptz": Kind("timestamptz", [f"{stamp}+00" for stamp in STAMPS], TOO_FAR),
    "timestamptz_far": Kind("timestamptz", [*FAR, "1900-01-01 00:00:00+05:53:28"]),
    "interval": Kind("interval", ["1 mon", "30 days", "720:00", "1 year 2 mons -3 days +04:05:06.789", "-1 second"]),
    "json": Kind("json", ['{"k":1,"j":2,"j":[1e2,0.10]}', '"text"', "[]", "1e400"]),
    "json_lines": Kind(
        "json", ['{"a":\n 1,\r\n"b": "x\\ny"}'], json={'{"a":\n 1,\r\n"b": "x\\ny"}': '{"a":  1,  "b": "x\\ny"}'}
    ),
    "jsonb": Kind(
        "jsonb", ['{"z":12345678901234567890123.4500,"a":[1e2,0.10]}', '"t\\"\\n"', "{}", "null"], json={"null": None}
    ),
    "jsonpath": Kind("jsonpath", ["$.a[*] ? (@ > 1)"]),
    "xml": Kind("xml", ["<a b='1'>&lt;\n</a>"]),
    "money": Kind("money", ["1.5", "-92233720368547758.08"]),
    "inet": Kind("inet", ["1.2.3.4", "10.1.2.3/8", "::1/64"]),
    "cidr": Kind("cidr", ["10.0.0.0/8", "2001:db8::/32"]),
    "macaddr": Kind("macaddr", ["08:00:2b:01:02:03"]),
    "macaddr8": Kind("macaddr8", ["08:00:2b:01:02:03:04:05"]),
    "bit": Kind("bit(3)", ["101"]),
    "varbit": Kind("varbit", ["", "1", "0" * 65]),
    "point": Kind("point", ["(1,-2.5)", "(1e300,NaN)"]),
    "line": Kind("line", ["{1,2,3}"]),
    "lseg": Kind("lseg", ["[(0,0),(1,1)]"]),
    "box": Kind("box", ["(1,1),(0,0)"]),
    "path": Kind("path", ["[(0,0),(1,1)]", "((0,0),(1,1))"]),
    "polygon": Kind("polygon", ["((0,0),(1,1),(1,0))"]),
    "circle": Kind("circle", ["<(0,0),1.5>"]),
    "int4range": Kind("int4range", ["[1,5)", "empty", "(,)"]),
    "int8range": Kind("int8range", ["[1,9223372036854775807)"]),
    "numrange": Kind("numrange", ["(1.10,2.200]"]),
    "daterange": Kind("daterange", ["[2026-01-01,infinity)"]),
    "tsrange": Kind("tsrange", ['["2026-01-01 00:00:00",)']),
    "tstzrange": Kind("tstzrange", ['["2026-01-01 00:00:00+00","2026-01-02 00:00:00.5+00"]']),
    "int4multirange": Kind("int4multirange", ["{[1,2),[5,6)}", "{}"]),
    "tstzmultirange": Kind("tstzmultirange", ['{["2026-01-01 00:00:00+00",)}']),
    "tsvector": Kind("tsvector", ["'a':1A 'it''s b'", ""]),
    "tsquery": Kind("tsquery", ["'a' & !'b c'", ""]),
    "regclass": Kind("regclass", ["pg_class"]),
    "xid": Kind("xid", ["4294967295"]),
    "xid8": Kind("xid8", ["18446744073709551615"]),
    "tid": Kind("tid", ["(0,1)"]),
    "pg_lsn": Kind("pg_lsn", ["16/B374D848"]),
    "pg_snapshot": Kind("pg_snapshot", ["10:20:10,14"]),
    "oidvector": Kind("oidvector", ["1 4294967295"]),
    "aclitem": Kind("aclitem", ["=r/postgres"]),
    "refcursor": Kind("refcursor", ['<a "b">']),
    # Not from here: the servers that wheels bring lack these extensions. Types of the same names and forms stand in.
    "hstore": Kind("hstore", ['"a"=>"1", "b"=>NULL']),
    "ltree": Kind("ltree", ["Top.Science.Astronomy"]),
    "citext": Kind("citext", ["ÄbC", ""]),
    "without_binary": Kind("without_binary", ["a b", ""]),
    "vector": Kind("vector(3)", ["[1,2.5,-3e-20]"]),
    "enum": Kind("mood", ["sad", "so, so"]),
    "domain_int": Kind("posint", ["1", "2147483647"]),
    "domain_numeric": Kind("price", ["99999999.99", "1.50"], ["NaN"]),
    "domain_text": Kind("label", TEXTS),
    "domain_array": Kind("labels", ["{}", "{a,NULL}"], ["{{a},{b}}"]),
    "domain_enum": Kind("feeling", ["sad"]),
    "composite": Kind("pair", ["(1,)", '(,"a ""b"", c")', "(-1,é)"]),
    "composite_deep": Kind("deep", ['("(1,x)","{NaN,1.10}","{""(2,y)""}",1.50,"{""a"": null}",infinity)']),
    "bools": array("bool", ["t", "f"]),
    "int2s": array("int2", ["-32768", "32767"]),
    "int4s": array("int4", ["-2147483648", "2147483647"]),
    "int8s": array("int8", ["-9223372036854775808", "9223372036854775807"]),
    "float4s": array("float4", FLOATS),
    "float8s": array("float8", [*FLOATS, "5e-324"]),
    "numerics": array("numeric", ["1.10", "1e-40", "123456789012345678901234567890.5", "NaN", "Infinity"]),
    "numeric_10_2s": array("numeric(10,2)", ["1.10", "NaN"]),
    "texts": array("text", [text for text in TEXTS if text != r"\."]),
    "varchars": array("varchar(20)", ["NULL", "", "a b"]),
    "bpchars": array("char(5)", ["a", ""]),
    "names": array("name", ["a", ""]),
    "byteas": array("bytea", [r"\x00ff", r"\x"]),
    "uuids": array("uuid", ["a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"]),
    "dates": array("date", ["2026-02-03", "0001-01-01"], ["infinity", "-infinity"]),
    "times": array("time", TIMES, ["24:00:00"]),
    "timestamps": array("timestamp", STAMPS, TOO_FAR),
    "timestamptzs": array("timestamptz", [f"{stamp}+00" for stamp in STAMPS], TOO_FAR),
    "jsons": array("json", ['{"k":1, "j":"a"}', "1.50"]),
    "jsonbs": array("jsonb", ['{"k": 1.50}', '"a"']),
    "enums": array("mood", ["sad", "so, so"]),
    "domain_texts": array("label", ["a", "b c"]),
    "refcursors": array("refcursor", ["a", ""]),
    "oids": flat("oid", ["0", "4294967295"]),
    "chars": flat('"char"', ["a"]),
    "domain_ints": flat("posint", ["1", "7"]),
    "domain_numerics": flat("price", ["1.50", "NaN"]),
    "intervals": flat("interval", ["1 mon", "-00:00:01"]),
    "timetzs": flat("timetz", ["12:00:00+02"]),
    "moneys": flat("money", ["$1.50"]),
    "inets": flat("inet", ["1.2.3.4", "::1/64"]),
    "points": flat("point", ["(1,2)"]),
    "int4ranges": flat("int4range", ["[1,5)", "empty"]),
    "int4multiranges": flat("int4multirange", ["{[1,2),[5,6)}"]),
    "composites": flat("pair", ['(1,"a b")', "(,)"]),
    "vectors": flat("vector", ["[1,2.5]"]),
    "hstores": flat("hstore", ['"a"=>"1"']),
}
ROWS = 1 + max(len(kind.all) for kind in KINDS.values())  # the last row is NULL throughout


def base_type(name: str, *, binary: bool) -> list[str]:
    """A base type that is text inside, as those of extensions look to Outhaul."""
    functions = {"in": ("cstring", name), "out": (name, "cstring"), "recv": ("internal", name), "send": (name, "bytea")}
    used = list(functions) if binary else ["in", "out"]
    words = dict(zip(functions, ("INPUT", "OUTPUT", "RECEIVE", "SEND"), strict=True))
    return [
        f"CREATE TYPE {name}",
        *(
            f"CREATE FUNCTION {name}_{end}({functions[end][0]}) RETURNS {functions[end][1]} "
            f"LANGUAGE internal IMMUTABLE STRICT AS 'text{end}'"
            for end in used
        ),
        f"CREATE TYPE {name} ({', '.join(f'{words[end]} = {name}_{end}' for end in used)}, LIKE = text)",
    ]


SCHEMA = [
    "CREATE EXTENSION vector",
    # No wheel's server is built with libxml. Without it, only reading text as XML is missing: this reads it as it is.
    "CREATE FUNCTION read_xml(cstring) RETURNS xml LANGUAGE internal IMMUTABLE STRICT AS 'textin'",
    "UPDATE pg_type SET typinput = 'read_xml'::regproc WHERE typname = 'xml'",
    *(statement for name in ("hstore", "ltree", "citext") for statement in base_type(name, binary=True)),
    *base_type("without_binary", binary=False),
    "CREATE TYPE mood AS ENUM ('sad', 'so, so')",
    "CREATE DOMAIN posint AS int CHECK (VALUE > 0)",
    "CREATE DOMAIN price AS numeric(10,2)",
    "CREATE DOMAIN label AS text",
    "CREATE DOMAIN labels AS text[]",
    "CREATE DOMAIN feeling AS mood",
    "CREATE TYPE pair AS (a int, b text)",
    "CREATE TYPE deep AS (p pair, n numeric[], ps pair[], m price, j jsonb, d date)",
]


def quoted(names: list[str]) -> str:
    return ", ".join(f'"{name}"' for name in names)


class Database:
    """The source, and what readers found, in tables of the same columns."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.connection = psycopg.connect(url, autocommit=True)
        self.execute("SET timezone TO 'UTC'")
        for statement in SCHEMA:
            self.execute(statement)
        columns = ", ".join(f'"{name}" {kind.sql}' for name, kind in KINDS.items())
        self.execute(f"CREATE TABLE t (n int, {columns})")
        for table in ("typed", "told"):
            self.execute(f"CREATE TABLE {table} (LIKE t)")
        whole = {name: kind.all for name, kind in KINDS.items()}
        self.load("t", whole)
        self.load("typed", {name: kind.usual for name, kind in KINDS.items()})
        self.load("told", {name: [kind.json.get(value, value) for value in kind.all] for name, kind in KINDS.items()})

    def execute(self, sql: str, values: Any = None) -> list[Any]:
        cursor = self.connection.execute(sql, values)
        return cursor.fetchall() if cursor.description else []

    def load(self, table: str, columns: dict[str, list[str | None]], forms: dict[str, str] | None = None) -> None:
        """Fill a table, shorter columns up with NULLs; ``forms`` are the SQL for values that are no literals."""
        self.execute(f"CREATE TABLE IF NOT EXISTS {table} (LIKE t)")
        targets = quoted(["n", *columns])
        forms = {name: f"CAST({{}} AS {KINDS[name].sql})" for name in columns} | (forms or {})
        places = [forms[name].format(f"%({name})s") for name in columns]
        with self.connection.cursor() as cursor:
            cursor.executemany(
                f"INSERT INTO {table} ({targets}) VALUES (%(n)s, {', '.join(places)})",
                [
                    {"n": n, **{name: values[n] if n < len(values) else None for name, values in columns.items()}}
                    for n in range(ROWS)
                ],
            )

    def copy(self, table: str, data: bytes) -> None:
        self.execute(f"CREATE TABLE {table} (LIKE t)")
        with self.connection.cursor().copy(f"COPY {table} FROM STDIN (FORMAT csv, HEADER)") as copy:
            copy.write(data)

    def populate(self, table: str, document: str) -> None:
        self.execute(
            f"CREATE TABLE {table} AS SELECT p.* FROM json_populate_recordset(NULL::t, CAST(%s AS json)) p", [document]
        )

    def differences(self, right: str, found: str, column: str, same: str = "false") -> list[Any]:
        """The rows in which two tables differ in a column; ``same`` is SQL for what is to pass nevertheless."""
        a, b = f'a."{column}"', f'b."{column}"'
        return self.execute(
            f"SELECT n, {a}::text, {b}::text FROM {right} a FULL JOIN {found} b USING (n) "
            f"WHERE record_image_ne(ROW(a.n, {a}), ROW(b.n, {b})) AND ({same.format(a, b)}) IS NOT TRUE"
        )


EXPORTS: dict[str, tuple[str, str, dict[str, str]]] = {
    "csv": ("csv", "SELECT * FROM t ORDER BY n", {}),
    "lines": ("json", "SELECT * FROM t ORDER BY n", {}),
    "array": ("json", "SELECT * FROM t ORDER BY n", {"layout": "array"}),
    "typed": ("parquet", "SELECT * FROM t ORDER BY n", {"unrepresentable": "null"}),
    "text": ("parquet", "SELECT * FROM t ORDER BY n", {"unrepresentable": "text"}),
    "typed_empty": ("parquet", "SELECT * FROM t WHERE false", {"unrepresentable": "null"}),
    "text_empty": ("parquet", "SELECT * FROM t WHERE false", {"unrepresentable": "text"}),
}


@dataclass(frozen=True)
class World:
    """The database, one file an export, and how often Parquet had to put NULL."""

    database: Database
    files: dict[str, Path]
    replaced: dict[str, int]


@pytest.fixture(scope="module")
def world(pg, tmp_path_factory):
    with psycopg.connect(pg.url("postgres"), autocommit=True) as connection:
        connection.execute("CREATE DATABASE round_trip TEMPLATE template0")
    database = Database(pg.url("round_trip"))
    root = tmp_path_factory.mktemp("files")
    files, replaced = {}, {}
    for name, (format_, select, options) in EXPORTS.items():
        request = ExportRequest(
            dataset="t",
            query=parse_query({}),
            format=Format(format_),
            options=parse_options(Format(format_), options),
        )
        store = LocalStore(root / name)
        export = Export(
            database.url, ad_hoc(select), request, tenant=None, attempt=Attempt(name), open_upload=store.open_upload
        )
        produced = export.run()
        files[name] = store.path(produced.files[0].s3_key)
        replaced |= produced.replaced
    yield World(database, files, replaced)
    database.connection.close()


Columns = dict[str, list[Any]]


def literal(value: Any) -> str | None:
    """A reader's value in PostgreSQL's notation."""
    if value is None or value is pd.NA or value is pd.NaT:
        return None
    match value:
        case list() | np.ndarray():
            return f"{{{','.join(item(literal(each)) for each in value)}}}"
        case bytes():
            return "\\x" + value.hex()
        case bool() | int() | str() | UUID():
            return str(value)
        case float():
            return repr(value)
        case np.generic():
            return literal(value.item())
        case Decimal():
            return f"{value:f}"
        case date() | time():
            return value.isoformat()
    raise TypeError(type(value))


def literals(columns: Columns) -> dict[str, list[str | None]]:
    return {name: [literal(value) for value in values] for name, values in columns.items()}


# Ways to read a file, all columns of it or those named.


def csv_pyarrow(path: Path, names: list[str]) -> Columns:
    table = pyarrow.csv.read_csv(
        path,
        parse_options=pyarrow.csv.ParseOptions(newlines_in_values=True),
        convert_options=pyarrow.csv.ConvertOptions(
            column_types=dict.fromkeys(names, pa.string()),
            strings_can_be_null=True,
            null_values=[""],
            quoted_strings_can_be_null=False,
        ),
    )
    return {name: table[name].to_pylist() for name in names}


def duck(relation: duckdb.DuckDBPyRelation, names: list[str]) -> Columns:
    columns = zip(*relation.fetchall(), strict=True)
    return {name: list(values) for name, values in zip(relation.columns, columns, strict=True) if name in names}


def csv_duckdb(path: Path, names: list[str]) -> Columns:
    return duck(
        duckdb.sql(
            f"FROM read_csv('{path}', header=true, all_varchar=true, nullstr='', allow_quoted_nulls=false, escape='\"')"
        ),
        names,
    )


def csv_pandas(path: Path, names: list[str]) -> Columns:
    frame = pd.read_csv(path, dtype=str, keep_default_na=False, lineterminator="\n")
    return {name: [value or None for value in frame[name]] for name in names}


def json_duckdb(path: Path, names: list[str]) -> Columns:
    names = ["n", *names]
    types = ", ".join(f"{name!r}: 'JSON'" for name in names)
    return duck(duckdb.sql(f"FROM read_json('{path}', columns={{{types}}})"), names)


def json_pyarrow(path: Path, names: list[str]) -> Columns:
    schema = pa.schema({name: JSON_SCALARS.get(name, pa.string()) for name in names}.items())
    options = pyarrow.json.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore")
    table = pyarrow.json.read_json(path, parse_options=options)
    return {name: table[name].to_pylist() for name in names}


def json_pandas(path: Path, names: list[str]) -> Columns:
    frame = pd.read_json(path, lines=True, dtype=False)
    return {name: [None if pd.isna(value) else value for value in frame[name]] for name in names}


def parquet_pyarrow(path: Path, names: list[str]) -> Columns:
    table = pq.read_table(path)
    columns = {name: table[name] for name in names}
    for name in COUNTED:
        columns[name] = columns[name].cast(STORAGE.get(columns[name].type, pa.string()))
    return {name: column.to_pylist() for name, column in columns.items()}


def parquet_polars(path: Path, names: list[str]) -> Columns:
    frame = pl.read_parquet(path)
    found = {name: frame[name].to_list() for name in names if name not in COUNTED}
    # Polars reads UUIDs as the sixteen bytes that they are.
    found["uuid"] = [value and UUID(bytes=value) for value in found["uuid"]]
    return found | {name: frame[name].to_physical().to_list() for name in COUNTED}


def parquet_duckdb(path: Path, names: list[str]) -> Columns:
    return duck(duckdb.sql(f"SELECT {quoted(names)} FROM '{path}'"), names)


def parquet_pandas(path: Path, names: list[str]) -> Columns:
    frame = pd.read_parquet(path, columns=names, dtype_backend="numpy_nullable")
    return {name: frame[name].tolist() for name in names}


# Columns with values that Python's own dates cannot hold are read as counts since 1970.
DAYS = "date '1970-01-01' + CAST({} AS int)"
MICROSECONDS = (
    "timestamp '1970-01-01' + CAST({0} AS bigint) / 86400000000 * interval '1 day'"
    " + CAST({0} AS bigint) %% 86400000000 * interval '1 microsecond'"
)
COUNTED = {"date_far": DAYS, "timestamp_far": MICROSECONDS, "timestamptz_far": MICROSECONDS}
STORAGE = {pa.date32(): pa.int32(), pa.timestamp("us"): pa.int64(), pa.timestamp("us", "UTC"): pa.int64()}

LISTS = [name for name, kind in KINDS.items() if kind.sql.endswith("[]") or name == "domain_array"]
DOCUMENTS = ["json", "json_lines", "jsonb", "composite", "composite_deep"]
NUMBERS = [name for name in KINDS if name.startswith("numeric_") and name not in LISTS] + ["numeric", "domain_numeric"]
LISTS_OF_NUMBERS = ["float4s", "float8s", "numerics", "numeric_10_2s", "domain_numerics", "jsons", "jsonbs"]
NOT_PLAIN = [*NUMBERS, *DOCUMENTS, *LISTS, "float4", "float8"]
INTEGERS = ["int2", "int4", "int8", "oid", "domain_int"]
JSON_SCALARS = {"bool": pa.bool_(), **dict.fromkeys(INTEGERS, pa.int64())}


@dataclass(frozen=True)
class Reader:
    """A library and a file.

    Attributes:
        file: which export.
        read: gives values of columns, for ``Database.load``; None is PostgreSQL itself.
        right: the table of what should be found.
        same: SQL for a difference that is the reader's own.
        without: columns that the reader cannot hold; each is read by another one of the same file.
    """

    file: str
    read: Callable[[Path, list[str]], Columns] | None
    right: str = "t"
    same: str = "false"
    without: list[str] = field(default_factory=list)

    @property
    def columns(self) -> list[str]:
        return [name for name in KINDS if name not in self.without]


READERS = {
    "csv-postgresql": Reader("csv", None),
    "csv-pyarrow": Reader("csv", csv_pyarrow),
    "csv-duckdb": Reader("csv", csv_duckdb),
    # pandas takes an empty field for empty text, quotes or not.
    "csv-pandas": Reader("csv", csv_pandas, same="{0}::text = '' AND {1} IS NULL"),
    "lines-postgresql": Reader("lines", None, "told"),
    "array-postgresql": Reader("array", None, "told"),
    # DuckDB takes numbers in JSON for doubles, -0 for an integer, and writes documents anew.
    "array-duckdb": Reader("array", json_duckdb, "told", without=[*NUMBERS, *DOCUMENTS, *LISTS_OF_NUMBERS]),
    # Neither PyArrow nor pandas holds long numbers, or numbers beside words, or lists beside lists of lists: one such
    # column, and they refuse the file. Beside NULL, pandas takes integers for floats.
    "plain-pyarrow": Reader("plain", json_pyarrow, "told", without=NOT_PLAIN),
    "plain-pandas": Reader("plain", json_pandas, "told", without=[*NOT_PLAIN, *INTEGERS]),
    "typed-pyarrow": Reader("typed", parquet_pyarrow, "typed"),
    "typed-polars": Reader("typed", parquet_polars, "typed"),
    # DuckDB takes the last instant for infinity.
    "typed-duckdb": Reader("typed", parquet_duckdb, "typed", without=[*COUNTED]),
    # pandas makes Python's dates of dates, which end with the year 9999, and arrays of NumPy's of lists, which know no
    # NULL. It takes NaN for NULL.
    "typed-pandas": Reader(
        "typed",
        parquet_pandas,
        "typed",
        "{0}::text = 'NaN' AND {1} IS NULL",
        [*COUNTED, "int2s", "int4s", "int8s", "float4s", "float8s"],
    ),
    "text-pyarrow": Reader("text", parquet_pyarrow),
    "text-duckdb": Reader("text", parquet_duckdb),
}
EXPORTS["plain"] = ("json", f"SELECT {quoted(READERS['plain-pyarrow'].columns)} FROM t ORDER BY n", {})
PAIRS = [(reader, column) for reader, spec in READERS.items() for column in spec.columns]


@pytest.fixture(scope="module")
def found(world):
    """Loads what a reader finds into a table, once, and gives its name."""
    tables: dict[str, str] = {}

    def load(name: str) -> str:
        if name not in tables:
            table, reader, database = name.replace("-", "_"), READERS[name], world.database
            path = world.files[reader.file]
            if reader.read:
                values = reader.read(path, reader.columns)
            if reader.read is json_duckdb:
                rows = [
                    ",".join(f'"{key}":{values[key][i] or "null"}' for key in values) for i in range(len(values["n"]))
                ]
                database.populate(table, "[" + ",".join("{" + row + "}" for row in rows) + "]")
            elif reader.read:
                forms = COUNTED if reader.right == "typed" and not reader.without else {}
                database.load(table, literals(values), forms)
            elif reader.file == "csv":
                database.copy(table, path.read_bytes())
            else:
                text = path.read_text()
                database.populate(table, text if reader.file == "array" else f"[{','.join(text.splitlines())}]")
            tables[name] = table
        return tables[name]

    return load


@pytest.mark.parametrize(("reader", "column"), PAIRS)
def test_gives_it_back(world, found, reader, column):
    spec = READERS[reader]
    assert world.database.differences(spec.right, found(reader), column, spec.same) == []


def test_another_value_would_be_noticed(world):
    moved = {name: [None, *kind.all] for name, kind in KINDS.items()}
    world.database.load("moved", moved)
    assert [name for name in KINDS if not world.database.differences("t", "moved", name)] == []
    assert world.database.differences("t", "typed", "date") != []


def test_every_type_is_here():
    assert TYPES.keys() <= KINDS.keys()


def test_prints_as_copy_does(world):
    with world.database.connection.cursor().copy(
        "COPY (SELECT * FROM t ORDER BY n) TO STDOUT (FORMAT csv, HEADER)"
    ) as copy:
        assert world.files["csv"].read_bytes() == b"".join(bytes(chunk) for chunk in copy)


@pytest.mark.parametrize("layout", ["lines", "array"])
def test_tells_as_row_to_json_does(world, layout):
    exact = {"parse_float": Decimal, "parse_int": Decimal}
    text = world.files[layout].read_text()
    told = json.loads(text if layout == "array" else f"[{','.join(text.splitlines())}]", **exact)
    right = [
        json.loads(row, **exact) for (row,) in world.database.execute("SELECT row_to_json(t)::text FROM t ORDER BY n")
    ]
    # Outhaul tells an oid as the number that it is, and vectors of them as their text.
    for name in KINDS.keys() - {"oid", "oidvector"}:
        assert [row[name] for row in told] == [row[name] for row in right], name


def test_counts_what_parquet_cannot_hold(world):
    assert world.replaced == {name: len(kind.odd) for name, kind in KINDS.items() if kind.odd}


@pytest.mark.parametrize("policy", ["typed", "text"])
def test_no_rows_have_the_same_schema(world, policy):
    rows, none = (pq.read_schema(world.files[name]) for name in (policy, f"{policy}_empty"))
    assert {field.name: field for field in none} == {field.name: field for field in rows}
    assert none.names == rows.names == ["n", *KINDS]
    assert pq.read_metadata(world.files[f"{policy}_empty"]).num_rows == 0
