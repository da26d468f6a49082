"""A lake gives what a table gives: the same request, the same rows, the same bytes."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime, time
from decimal import Decimal
from itertools import count, cycle
from random import Random
from typing import Annotated

import pandera.polars as pa
import polars as pl
import psycopg
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from requests_of import comparison, filters, matching, sorts

from outhaul.data.catalog import Dataset, Lake, Table
from outhaul.data.lake_files import NULL_FOLDER

TEXTS = [
    "",
    "a",
    "A",
    "ab",
    "aB",
    "Z",
    "é",
    "e\u0301",
    "É",
    "😀",
    "\uffff",
    'say "hi"',
    "a,b",
    "l\n2",
    "%",
    "_",
    "\\",
    "null",
    " x ",
]
FLOATS = [0.0, -0.0, math.nan, math.inf, -math.inf, 1.0, -1.5, 0.1, 1e15, 1e-5, 5e-324, 2.0**53]
INTS = [0, 1, -1, 7, 2**31 - 1, -(2**31)]
BIGS = [0, 1, 2**63 - 1, -(2**63), 10**15]
DECIMALS = [Decimal(text) for text in ("0.00", "1.10", "-1.10", "0.01", "99999999.99", "-99999999.99", "5.00")]
DATES = [
    date(2026, 3, 28),
    date(2026, 3, 29),
    date(2026, 10, 25),
    date(1, 1, 1),
    date(9999, 12, 31),
    date(1969, 12, 31),
]
# Berlin puts its clocks forward on 2026-03-29 at 01:00Z and back on 2026-10-25 at 01:00Z.
MOMENTS = [
    datetime.fromisoformat(text)
    for text in (
        "2026-03-28 23:00:00", "2026-03-28 22:59:59.999999", "2026-03-29 00:59:59", "2026-03-29 01:00:00",
        "2026-03-29 22:00:00", "2026-10-24 22:00:00", "2026-10-25 01:00:00", "2026-10-25 23:00:00",
        "2026-10-25 00:00:00.000001", "1969-12-31 23:59:59.999999", "0002-01-01 00:00:00", "9999-12-30 01:02:03",
    )
]  # fmt: skip
# By column: its type in the lake, its type in the table, and values for it beside NULL.
COLUMNS = {
    "part": (pl.Int32, "int", [1, 2, 3]),
    "i": (pl.Int32, "int", INTS),
    "big": (pl.Int64, "bigint", BIGS),
    "f": (pl.Float64, "float8", FLOATS),
    "g": (pl.Float32, "float4", [0.0, -0.0, math.nan, 0.5, 1e30, math.inf]),
    "n": (pl.Decimal(10, 2), "numeric(10,2)", DECIMALS),
    "t": (pl.String, "text", TEXTS),
    "b": (pl.Boolean, "bool", [True, False]),
    "d": (pl.Date, "date", DATES),
    "w": (pl.Datetime("us"), "timestamp", MOMENTS),
    "z": (pl.Datetime("us", "UTC"), "timestamptz", [moment.replace(tzinfo=UTC) for moment in MOMENTS]),
    "tm": (pl.Time, "time", [time(0), time(12, 30), time(23, 59, 59, 999999)]),
    # A number that is promised as text: compared and sorted as it is printed.
    "as_text": (pl.Int64, "bigint", [1, 10, 9, -1, 100]),
}
NAMES = ["id", *COLUMNS]


class Everything(pa.DataFrameModel):
    id: pl.Int32
    part: pl.Int32 = pa.Field(nullable=True)
    i: pl.Int32 = pa.Field(nullable=True)
    big: pl.Int64 = pa.Field(nullable=True)
    f: pl.Float64 = pa.Field(nullable=True)
    g: pl.Float32 = pa.Field(nullable=True)
    n: Annotated[pl.Decimal, 10, 2] = pa.Field(nullable=True)
    t: str = pa.Field(nullable=True)
    b: bool = pa.Field(nullable=True)
    d: pl.Date = pa.Field(nullable=True)
    w: Annotated[pl.Datetime, "us", None] = pa.Field(nullable=True)
    z: Annotated[pl.Datetime, "us", "UTC"] = pa.Field(nullable=True)
    tm: pl.Time = pa.Field(nullable=True)
    as_text: str = pa.Field(nullable=True)


DAYS = st.sampled_from([day.isoformat() for day in DATES[:3]])


def day_of(column):
    return st.builds(
        lambda op, value, zone: {"column": column, "op": op, "value": value, "zone": zone},
        st.sampled_from(["on", "before", "after"]),
        DAYS,
        st.sampled_from([None, "Europe/Berlin", "America/New_York", "Asia/Kolkata"]),
    )


def word(number):
    return "NaN" if math.isnan(number) else {math.inf: "Infinity", -math.inf: "-Infinity"}.get(number, number)


LEAVES = st.one_of(
    comparison("part", st.integers(0, 4)),
    comparison("i", st.sampled_from([*INTS, 2**31, -(2**40)])),
    comparison("big", st.sampled_from(BIGS)),
    comparison("f", st.sampled_from([word(value) for value in FLOATS])),
    comparison("g", st.sampled_from([0.5, 0.1, "NaN", -0.0, 1e30])),
    comparison("n", st.sampled_from(["1.1", "1.101", "1.099", "0", "99999999.99", "100000000", "-1e20", "0.005"])),
    comparison("t", st.sampled_from(TEXTS)),
    comparison("d", st.sampled_from([day.isoformat() for day in DATES])),
    comparison("w", st.sampled_from([at.isoformat() for at in MOMENTS])),
    comparison("z", st.sampled_from([f"{at.isoformat()}+00:00" for at in MOMENTS] + ["2026-03-29T03:00:00+02:00"])),
    comparison("tm", st.sampled_from(["00:00:00", "12:30:00", "23:59:59.999999"])),
    comparison("as_text", st.sampled_from(["1", "10", "9", "-1"])),
    comparison("b", st.booleans(), order=False),
    day_of("d"),
    day_of("w"),
    day_of("z"),
    # Letters beyond ASCII are left out of icontains: there the database's collation decides.
    matching("t", st.sampled_from(["", "a", "A", "b", "%", "_", "\\", '"', "é", "😀", "\n"]), insensitive=False),
    matching("t", st.sampled_from(["", "a", "AB", "%", "_", "\\", "HI", "x"])),
    matching("as_text", st.sampled_from(["1", "0", "-"])),
)
QUERIES = st.fixed_dictionaries(
    {
        "filters": st.just([]) | filters(LEAVES, max_leaves=4),
        "sort": sorts(NAMES).map(lambda keys: [*keys, {"column": "id"}]),
        "limit": st.none() | st.integers(0, 12),
        "columns": st.none() | st.lists(st.sampled_from(NAMES), min_size=1, unique=True),
    }
)


@pytest.fixture
def both(export, tmp_path):
    """A function that puts rows into a table and into a lake, and gives both datasets."""
    export.sql(f"CREATE TABLE r (id int NOT NULL, {', '.join(f'{n} {pg}' for n, (_, pg, _) in COLUMNS.items())})")
    schema = {"id": pl.Int32, **{name: dtype for name, (dtype, _, _) in COLUMNS.items()}}
    folders = (tmp_path / f"lake{number}" for number in count())

    with psycopg.connect(export.url, autocommit=True) as connection:

        def put(rows, *, hive):
            connection.execute("TRUNCATE r")
            with connection.cursor().copy(f"COPY r ({', '.join(NAMES)}) FROM STDIN") as copy:
                for row in rows:
                    copy.write_row([row[name] for name in NAMES])
            frame, folder = pl.DataFrame(rows, schema=schema), next(folders)
            # Small groups let statistics, by which Polars skips them, come into play.
            parts = {f"{i}": frame[i : i + 11] for i in range(0, max(len(frame), 1), 11)}
            if hive:
                groups = frame.partition_by("part", as_dict=True, include_key=False) if rows else {(0,): frame}
                parts = {f"part={NULL_FOLDER if key is None else key}": group for (key,), group in groups.items()}
            for name, part in parts.items():
                (folder / name).mkdir(parents=True)
                part.write_parquet(folder / name / "rows.parquet", row_group_size=4)
            lake = Lake(str(folder), hive=hive)
            return tuple(Dataset("r", source, Everything, shared=True) for source in (Table("r"), lake))

        yield put


@settings(
    max_examples=75,
    deadline=None,
    # Shrinking would take longer than a test may; the message names the query.
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    seed=st.integers(0, 2**32),
    size=st.sampled_from([30, 12, 1, 0]),
    hive=st.booleans(),
    queries=st.lists(QUERIES, min_size=4, max_size=4),
)
def test_a_lake_and_a_table_give_the_same_bytes(export, both, seed, size, hive, queries):
    # Rows by seed: drawn one by one they would take most of the time.
    pick = Random(seed).choice
    rows = [{"id": i, **{n: pick([None, *values]) for n, (_, _, values) in COLUMNS.items()}} for i in range(size)]
    table, lake = both(rows, hive=hive)
    for query, format_ in zip(queries, cycle(["csv", "json"])):
        assert export(lake, format_, query).data == export(table, format_, query).data, query
