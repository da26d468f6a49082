"""Writes the pages of ``docs/`` that the code itself determines, for ``make docs``. A test holds them to it."""

from __future__ import annotations

import io
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import SecretStr

from outhaul.data.parquet_writer import ParquetWriter
from outhaul.data.pgtypes import TYPES, LiveColumn
from outhaul.data.scan import PlannedColumn
from outhaul.data.text import INFINITE_DAYS, INFINITE_US
from outhaul.data.typed import Tally
from outhaul.domain.job import Format
from outhaul.domain.options import OPTIONS, ParquetOptions
from outhaul.settings import Settings

HERE = Path(__file__).parent

SETTINGS_HEAD = """# Settings

Each is an environment variable, read once when a process starts. What has a value that it cannot have is named at once.
This page is made from `outhaul/settings.py` by `make docs`.

| variable | default | what it is |
|---|---|---|
"""

SETTINGS_FOOT = """
Prefect has settings of its own. Two matter here: `PREFECT_API_URL` names a Prefect server outside the embedded stack,
and `PREFECT_API_KEY` is the key for Prefect Cloud.

For S3, boto3 finds credentials, region and endpoint: `AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY`,
`AWS_DEFAULT_REGION`, `AWS_ENDPOINT_URL`, a profile, or the machine's role; or they come from
`OUTHAUL_STORE_CREDENTIALS_BLOCK`.
"""


def settings_page() -> str:
    """The table of settings."""
    rows = []
    for name, field in Settings.model_fields.items():
        default = field.default
        if isinstance(default, tuple):
            default = ",".join(f"{item:g}" for item in default)
        shown = "" if default is None or isinstance(default, SecretStr) else f"`{default}`".lower()
        rows.append(f"| `OUTHAUL_{name.upper()}` | {shown} | {field.description} |\n")
    return SETTINGS_HEAD + "".join(rows) + SETTINGS_FOOT


TYPES_HEAD = """# Types

How values of each PostgreSQL type stand in each format, by example. What CSV holds is what PostgreSQL's own `COPY`
prints, byte for byte, extremes included; quotes that CSV puts round a value are left out here. A type that has no row,
such as an extension's or one of your own, is text everywhere, as `inet` is.
This page is made from the table in `outhaul/data/pgtypes.py` by `make docs`.

| PostgreSQL | CSV | JSON | Parquet | what Parquet cannot hold |
|---|---|---|---|---|
"""

TYPES_FOOT = """
## What Parquet cannot hold

The last column names the values for which a type has no place. The option `unrepresentable` decides about them:

- `fail`, the default: the export fails, and the error names the column and the value.
- `null`: they become NULL, counted by column in the job's result and in the manifest. Columns of such types are then
  nullable, whatever their contract says.
- `text`: columns of such types, and all lists, are text as in CSV.

None of this depends on which values there are: all files of a dataset have one schema, those without rows, too.

A `numeric` column is a `DECIMAL` if its precision is at most 38 digits, where most readers end; any other is text.

## Lists in Parquet

An array is a `LIST` if it has one dimension and begins at 1. PostgreSQL promises neither: any column of arrays may hold
other shapes, and those are values that the list cannot hold. So is an array with an element that the element's type
cannot hold: the array falls under `unrepresentable` as a whole, for without the element it would be another one. An
empty array is an empty list, and a NULL element stays one.

PostgreSQL does not tell the precision of `numeric` inside an array. Such a list holds text with every digit, unless the
dataset's contract promises otherwise, as in `Annotated[pl.List, pl.Decimal(10, 2)]`. UUIDs and documents are text in
lists, because pandas cannot read the Parquet types for them there. Arrays of domains are text as a whole unless the
domain is one over text or an enum.

## Dates, times and numbers as text

Dates and times have PostgreSQL's ISO form. In CSV a space stands between date and time, as `COPY` prints it; in JSON a
`T`, as `to_json` prints it. Years before the first are counted backwards and marked `BC`; years after 9999 have as many
digits as they need. For other forms CSV has the options `date_format` and `timestamp_format`.

`timestamptz` is told in UTC, whatever the time zone of the server or the role; `timestamp` has no zone and is told as
it is stored. Intervals have the style `postgres`. Floats have the fewest digits that read back as the same number.

## JSON

- Integers, `numeric` and floats are bare numbers with every digit, also inside of arrays and composites. Many parsers
  take them for doubles: use one that does not where that matters. NaN and the infinities are strings.
- `json` and `jsonb` are documents inside the document. A JSON `null` cannot be told from an SQL NULL there. Line breaks
  between the parts of a `json` document become spaces, so that each row keeps to its line.
- Arrays are arrays with as many dimensions, but do not tell where they begin. Composites are objects.
- All else is a string of what CSV holds.

## Domains

A domain is what its base type is, with its length and precision.
"""


@dataclass(frozen=True)
class Example:
    """A type with values as they travel: in JSON's way where that differs."""

    sql: str
    typname: str
    arrow: pa.DataType
    wire: list[Any]
    typmod: int = -1
    json_wire: list[Any] | None = None

    @property
    def live(self) -> LiveColumn:
        """The column that such a type makes."""
        return LiveColumn("x", self.typname, self.typmod, self.arrow)

    @property
    def csv(self) -> list[str]:
        """The values in CSV."""
        return self.live.type.text(self._series(self.wire)).to_list()

    @property
    def json(self) -> list[str]:
        """The values in JSON."""
        return self.live.type.fragment(self._series(self.json_wire or self.wire)).to_list()

    @property
    def parquet(self) -> str:
        """The Parquet type, from a file without rows."""
        buffer = io.BytesIO()
        column = PlannedColumn("x", "x", None, self.live, self.live.dtype, nullable=True, description="")
        ParquetWriter(buffer, [column], ParquetOptions(), {}, Tally("fail")).close()
        return parquet_type(pq.ParquetFile(buffer).schema.column(0))

    @property
    def lacks(self) -> str:
        """What Parquet cannot hold."""
        live = self.live
        if not live.element:
            return live.type.lacks if live.dtype != pl.String else ""
        inner = live.element.type.lacks if live.element.dtype != pl.String else ""
        return f"other shapes; inside: {inner}" if inner else "other shapes"

    def _series(self, values: list[Any]) -> pl.Series:
        return pl.Series(values, dtype=pl.Float32 if pa.types.is_float32(self.arrow) else None)


def parquet_type(leaf: Any) -> str:
    """Name the type of a Parquet file's column."""
    about = json.loads(leaf.logical_type.to_json())
    words = {
        "Int": "INT({bitWidth})",
        "Decimal": "DECIMAL({precision},{scale})",
        "Time": "TIME in {timeUnit}",
        "Timestamp": "TIMESTAMP in {timeUnit}, " + ("UTC" if about.get("isAdjustedToUTC") else "no zone"),
        "None": "",
    }.get(about["Type"], about["Type"].upper())
    inner = f"{leaf.physical_type} {words.format(**about)}".rstrip()
    return f"LIST of {inner}" if ".list." in leaf.path else inner


def opaque(sql: str, *wire: str, typname: str = "", json_wire: list[str] | None = None) -> Example:
    """A type that ADBC does not know."""
    return Example(sql, typname or sql, pa.opaque(pa.binary(), sql, "PostgreSQL"), [*wire], json_wire=json_wire)


def array(element: str, arrow: pa.DataType, wire: str, json_wire: str) -> Example:
    """An array, which travels as text but for Parquet."""
    field = pa.field("item", arrow, metadata={"POSTGRESQL:type": element})
    return Example(f"{element}[]", f"_{element}", pa.list_(field), [wire], json_wire=[json_wire])


ENDLESS_DAY, ENDLESS_US = (next(iter(words)) for words in (INFINITE_DAYS, INFINITE_US))
MOMENT = 1_770_091_506_789_000
INSTANT = pa.timestamp("us", "UTC")
EXAMPLES = [
    Example("bool", "bool", pa.bool_(), [True, False]),
    Example("int2", "int2", pa.int16(), [7]),
    Example("int4", "int4", pa.int32(), [7]),
    Example("int8", "int8", pa.int64(), [2**63 - 1]),
    Example("oid", "oid", pa.int32(), [2**32 - 1]),
    Example("float4", "float4", pa.float32(), [0.1, 1e6, float("nan")]),
    Example("float8", "float8", pa.float64(), [3.0, 1e15, float("-inf")]),
    Example("numeric", "numeric", pa.string(), ["1.10", "nan"]),
    Example("numeric(10,2)", "numeric", pa.string(), ["1.10", "nan"], typmod=(10 << 16 | 2) + 4),
    Example("numeric(50,20)", "numeric", pa.string(), ["1.10000000000000000000"], typmod=(50 << 16 | 20) + 4),
    Example("text", "text", pa.string(), ["a b", 'say "hi"']),
    Example("varchar", "varchar", pa.string(), ["a b"]),
    Example("char(3)", "bpchar", pa.string(), ["a  "]),
    Example("name", "name", pa.string(), ["pg_class"]),
    Example('"char"', "char", pa.string(), ["r"]),
    Example("bytea", "bytea", pa.binary(), [b"\x00\xff"]),
    Example("uuid", "uuid", pa.uuid(), [bytes.fromhex("a0eebc999c0b4ef8bb6d6bb9bd380a11")]),
    Example("date", "date", pa.date32(), [20_487, -735_160, ENDLESS_DAY]),
    Example("time", "time", pa.time64("us"), [14_706_700_000, 86_400_000_000]),
    Example("timestamp", "timestamp", pa.timestamp("us"), [MOMENT, ENDLESS_US]),
    Example("timestamptz", "timestamptz", INSTANT, [MOMENT, 317_336_745_600_000_000]),
    opaque("json", '{"k":1, "k":2}'),
    opaque("jsonb", '{"k": 1.50}'),
    Example("enum", "mood", pa.string(), ["sad"]),
    Example("composite", "pair", pa.struct([]), ['(1,"a b")'], json_wire=['{"a":1,"b":"a b"}']),
    array("int4", pa.int32(), "{1,NULL}", "[1,null]"),
    array("text", pa.string(), '{a,"b c"}', '["a","b c"]'),
    array("numeric", pa.string(), "{1.10,NaN}", '[1.10,"NaN"]'),
    array("uuid", pa.uuid(), "{a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11}", '["a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"]'),
    array("bytea", pa.binary(), r'{"\\x00ff"}', r'["\\x00ff"]'),
    array("date", pa.date32(), "{2026-02-03}", '["2026-02-03"]'),
    array("time", pa.time64("us"), "{04:05:06.7}", '["04:05:06.7"]'),
    array("timestamptz", INSTANT, '{"2026-02-03 04:05:06+00"}', '["2026-02-03T04:05:06+00:00"]'),
    array("jsonb", pa.string(), r'{"{\"k\": 1}"}', '[{"k": 1}]'),
    array("interval", pa.month_day_nano_interval(), '{"1 mon"}', '["1 mon"]'),
    opaque("int4range", "[1,5)", typname="unnamed<oid:3904>", json_wire=['"[1,5)"']),
    opaque("int4multirange", "{[1,5),[7,8)}"),
    opaque("interval", "1 mon -3 days +04:05:06.789"),
    opaque("timetz", "12:00:00+02"),
    opaque("inet", "1.2.3.4", "::1/64"),
    opaque("money", "$1.50"),
    opaque("bit(3)", "101", typname="bit"),
    opaque("point", "(1,2)"),
    opaque("tsvector", "'a':1A 'b c'"),
    opaque("xml", "<a/>"),
]


def types_page() -> str:
    """The table of types."""
    missing = TYPES.keys() - {example.typname for example in EXAMPLES}
    if missing:
        raise ValueError(f"no example of {', '.join(sorted(missing))}")
    rows = []
    for example in EXAMPLES:
        csv, told = (", ".join(f"`{value}`" for value in values) for values in (example.csv, example.json))
        rows.append(f"| `{example.sql}` | {csv} | {told} | {example.parquet} | {example.lacks} |\n")
    return TYPES_HEAD + "".join(rows) + TYPES_FOOT


OPTIONS_HEAD = """# Format options

An option is given as `--option name=value` on the command line, or in `options` of a request. One that a format does
not know, or a value that cannot be, is refused before anything is stored. How each type is written stands in
[types](types.md). This page is made from `outhaul/domain/options.py` by `make docs`.

    outhaul copy flights --tenant UA --to flights.csv --option excel=true
    outhaul copy flights --tenant UA --to flights.csv.gz --option delimiter=';' --option decimal=,
    outhaul request flights --tenant UA --format parquet --option compression=zstd --option compression_level=9
    outhaul copy flights --tenant UA --to flights.jsonl --option max_rows_per_file=100000
"""

OPTIONS_FOOT = """
## Several files

With `max_rows_per_file` or `max_bytes_per_file` each file is whole in itself (header, brackets, footer), and all of
them appear together or not at all. An export's files are numbered (`flights-00000.csv`, `flights-00001.csv`) and
listed in `manifest.json`; those of `outhaul copy` are called after the first (`flights.csv`, `flights-00001.csv`). At
most 10,000 files are written.

## Checking a file

Rows, bytes and SHA-256 of each file are computed while it is written; they stand in `manifest.json`, on the job, and in
what `outhaul copy` prints. `sha256sum flights.csv` gives the same digest.
"""


def options_page() -> str:
    """The tables of format options."""
    page = OPTIONS_HEAD
    for format_, model in OPTIONS.items():
        page += f"\n## {format_.value.upper() if format_ is not Format.PARQUET else 'Parquet'}\n\n"
        page += "| option | default | what it is |\n|---|---|---|\n"
        for name, field in sorted(model.model_fields.items(), key=lambda item: item[0].startswith("max_")):
            default = "" if field.default in (None, "") else f"`{str(field.default).lower()}`"
            choices = [f"`{value}`" for value in get_args(field.annotation) if isinstance(value, str)]
            also = f" One of {', '.join(choices)}." if len(choices) > 1 else ""
            page += f"| `{name}` | {default} | {field.description}{also} |\n"
    return page + OPTIONS_FOOT


PAGES = {"settings.md": settings_page, "types.md": types_page, "options.md": options_page}

if __name__ == "__main__":
    for name, page in PAGES.items():
        (HERE / name).write_text(page())
