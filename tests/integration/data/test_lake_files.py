"""What a lake may look like, what is refused of it, and what may happen to it while it is read."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import threading
from datetime import UTC, datetime, timedelta
from functools import partial

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pandera.polars import DataFrameModel, Field
from s3_server import BUCKET

from outhaul.data.catalog import Catalog, Dataset, Lake
from outhaul.domain.retry import Verdict, classify
from outhaul.errors import Cancelled, ContractViolation, InvalidRequest, SourceError, UnrepresentableValue
from outhaul.service.copying import Copying
from outhaul.service.sources import Sources


def lake(path, contract=None, **more):
    more = more or {"shared": True}
    return Dataset("d", Lake(str(path)), contract, **more)


def write(path, **columns):
    path.parent.mkdir(parents=True, exist_ok=True)
    pl.DataFrame(columns).write_parquet(path)


class Ids(DataFrameModel):
    id: pl.Int64


class Sales(DataFrameModel):
    id: pl.Int64
    year: pl.Int16 = Field(nullable=True)
    shop: str


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("", "names no file"),
        ("s3://", "names no file"),
        ("gs://bucket/x", "only s3://"),
        ("https://host/x.parquet", "only s3://"),
        ("s3://buck*/x", "cannot be a pattern"),
        ("/lake/a**/x", "whole folders"),
    ],
)
def test_a_path_is_judged_early(path, words):
    with pytest.raises(InvalidRequest, match=words):
        Lake(path)


def test_files_folders_and_patterns(export, tmp_path):
    for i, name in enumerate(
        ["a/1.parquet", "a/b/2.parquet", "a/b/3.pq", "c/4.parquet", "a/_tmp/5.parquet", "a/.6.parquet"]
    ):
        write(tmp_path / name, id=[i])
    (tmp_path / "a/_SUCCESS").touch()
    write(tmp_path / "odd[1].parquet", id=[9])

    def ids(path):
        return export(lake(tmp_path / path)).data.decode().split()[1:]

    assert ids("a") == ids("a/") == ids("a/**/*.parquet") == ["0", "1"]
    assert ids("a/*.parquet") == ["0"]
    assert ids("a/b/3.pq") == ["2"]
    assert ids("**/?.parquet") == ["0", "1", "3"]
    assert ids("[ac]/[!2-3].parquet") == ["0", "3"]
    assert ids("odd[1].parquet") == ["9"]


def test_hive_columns(export, tmp_path):
    base = tmp_path / "day=1" / "lake"  # a folder above the lake is no column
    write(base / "year=2025/shop=a%2Fb/x.parquet", id=[1, 2], year=[0, 0])  # the folder wins
    write(base / "year=2026/shop=c d/x.parquet", id=[3], year=[0])
    write(base / "year=__HIVE_DEFAULT_PARTITION__/shop=e=f/x.parquet", id=[4], year=[0])
    both = lake(base, Sales, tenant="shop")
    assert export(both, tenant="a/b").data == b"id,year,shop\n1,2025,a/b\n2,2025,a/b\n"
    assert export(both, tenant="e=f").data == b"id,year,shop\n4,,e=f\n"
    assert export(both, tenant="' OR true").data == b"id,year,shop\n"
    shared = lake(base, Sales)
    older = {"filters": {"not": {"column": "year", "op": ">", "value": 2025}}, "columns": ["year", "shop"]}
    assert export(shared, query=older).data == b"year,shop\n2025,a/b\n2025,a/b\n,e=f\n"
    assert (
        export(shared, query={"sort": [{"column": "year", "descending": True}], "limit": 1}).data[-11:]
        == b"3,2026,c d\n"
    )
    plain = Dataset("d", Lake(str(base), hive=False), Ids, shared=True)
    assert export(plain).data == b"id\n1\n2\n3\n4\n"
    assert export(lake(base)).data.startswith(b"id,year,shop\n")  # without a contract they are text
    with pytest.raises(ContractViolation, match="'shop'"):
        export(Dataset("d", Lake(str(base), hive=False), Sales, shared=True))


def test_folders_that_a_request_cannot_need_are_not_opened(export, tmp_path):
    write(tmp_path / "year=2025/shop=a/x.parquet", id=[1])
    broken = tmp_path / "year=2026/shop=b/x.parquet"
    broken.parent.mkdir(parents=True)
    broken.write_bytes(b"not Parquet")
    both = lake(tmp_path, Sales, tenant="shop")
    result = export(both, tenant="a")
    assert result.data == b"id,year,shop\n1,2025,a\n"
    with pytest.raises(ContractViolation, match="cannot be read as Parquet"):
        export(both, tenant="b")
    assert export(both, query={"filters": {"column": "year", "op": "<", "value": 2000}}, tenant="b").produced.rows == 0


def test_folders_must_agree(export, tmp_path):
    write(tmp_path / "year=2025/x.parquet", id=[1])
    write(tmp_path / "month=1/x.parquet", id=[1])
    with pytest.raises(ContractViolation, match="name different columns"):
        export(lake(tmp_path, Ids))
    write(tmp_path / "other/year=abc/shop=a/x.parquet", id=[1])
    with pytest.raises(ContractViolation, match=r"'year'.*Int16"):
        export(lake(tmp_path / "other", Sales))


def test_case_35_drift(export, tmp_path):
    write(tmp_path / "a.parquet", id=[1], new=[1])
    result = export(lake(tmp_path, Ids))
    assert (result.data, result.produced.notes) == (b"id\n1\n", ("column 'new' is new and not in the contract",))
    write(tmp_path / "b.parquet", id=["x"])
    with pytest.raises(
        ContractViolation, match=r"'id' is int8 \(Int64\) in one file and text \(String\) in another"
    ) as caught:
        export(lake(tmp_path, Ids))
    assert classify(caught.value) is Verdict.PERMANENT
    write(tmp_path / "c/c.parquet", id=["x"])
    with pytest.raises(ContractViolation, match="'id' is text, which does not fit the promised Int64"):
        export(lake(tmp_path / "c", Ids))
    write(tmp_path / "d/d.parquet", other=[1])
    with pytest.raises(ContractViolation, match="'id' is missing"):
        export(lake(tmp_path / "d", Ids))


class Grown(DataFrameModel):
    id: pl.Int64
    since: str = Field(nullable=True)


class Filled(Grown):
    since: str


@pytest.mark.parametrize("names", ["ab", "ba"])
def test_a_column_that_older_files_lack_is_null_there(export, tmp_path, names):
    write(tmp_path / f"{names[0]}.parquet", id=[1])
    write(tmp_path / f"{names[1]}.parquet", id=[2], since=["x"])
    result = export(lake(tmp_path, Grown), query={"sort": [{"column": "id"}]})
    assert result.data == b"id,since\n1,\n2,x\n"
    assert result.produced.notes == ("column 'since' is missing in 1 of 2 files and NULL there",)
    with pytest.raises(ContractViolation, match="not NULL"):
        export(lake(tmp_path, Filled))


def test_no_files_and_no_plain_files(export, tmp_path):
    for path in (tmp_path / "nowhere", tmp_path, tmp_path / "*.parquet"):
        with pytest.raises(ContractViolation, match="no Parquet files"):
            export(lake(path))
    write(tmp_path / "x.parquet", id=[1])
    (tmp_path / "_delta_log").mkdir()
    (tmp_path / "_delta_log" / "0.json").touch()
    with pytest.raises(ContractViolation, match="Delta"):
        export(lake(tmp_path))


def test_no_sql_on_a_lake(export, tmp_path):
    from outhaul.data.scan import scan_postgres
    from outhaul.domain.request import Query

    with pytest.raises(InvalidRequest, match="not read with SQL"):
        scan_postgres(export.url, lake(tmp_path), Query())


EVERY_TYPE = """CREATE TABLE every AS SELECT 1 AS id, 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'::uuid AS u,
    '{"k":  1}'::json AS j, '\\x00ff'::bytea AS x, '04:05:06.7'::time AS tm, '0044-03-15 BC'::date AS d,
    '0044-03-15 01:02:03 BC'::timestamp AS ts, '2026-02-03 04:05:06.789+00'::timestamptz AS tz, 1.5::float4 AS g,
    1e15::float8 AS f, (-1.10)::numeric(10,2) AS n, ARRAY[1,NULL,3]::int4[] AS li,
    ARRAY['a','b c','','NULL','"',E'\\\\','x,y','{}',NULL] AS lt, '{}'::text[] AS le,
    ARRAY[0.5,'NaN',3,1e20]::float8[] AS lf, ARRAY['\\x00ff']::bytea[] AS lx, ARRAY[true,false] AS lb,
    ARRAY['2026-02-03'::date,NULL] AS ld, ARRAY['2026-02-03 04:05:06.7+00'::timestamptz] AS lz,
    ARRAY['04:05:06'::time] AS ltm"""


@pytest.mark.parametrize("format_", ["csv", "json", "parquet"])
def test_an_export_is_a_lake_that_exports_the_same(export, tmp_path, format_):
    export.sql(EVERY_TYPE, "INSERT INTO every (id) VALUES (2)")
    every = "SELECT * FROM every ORDER BY id"
    (tmp_path / "x.parquet").write_bytes(export(every, "parquet").data)
    found, right = export(lake(tmp_path), format_).data, export(every, format_).data
    if format_ == "parquet":
        schemas = [pq.read_schema(io.BytesIO(data)).remove_metadata() for data in (found, right)]
        assert schemas[0] == schemas[1]
        assert pl.read_parquet(io.BytesIO(found)).equals(pl.read_parquet(io.BytesIO(right)))
    else:
        assert found == right
    where = {"column": "u", "op": "=", "value": "A0EEBC99-9c0b-4ef8-bb6d-6bb9bd380a11"}
    assert export(lake(tmp_path), query={"columns": ["id"], "filters": where}).data == b"id\n1\n"


def test_types_that_postgresql_lacks(export, tmp_path):
    write(
        tmp_path / "x.parquet",
        u8=pl.Series([255], dtype=pl.UInt8),
        u32=pl.Series([2**32 - 1], dtype=pl.UInt32),
        u64=pl.Series([2**64 - 1], dtype=pl.UInt64),
        h=pl.Series([1.5], dtype=pl.Float16),
        e=pl.Series(["a"], dtype=pl.Enum(["b", "a"])),
        c=pl.Series(["a"], dtype=pl.Categorical),
        nothing=pl.Series([None]),
        z=pl.Series([datetime(2026, 3, 29, 1, 0, tzinfo=UTC)], dtype=pl.Datetime("ms", "Europe/Berlin")),
        ns=pl.Series([1_000], dtype=pl.Int64).cast(pl.Datetime("ns")),
        pair=pl.Series([[1, 2]], dtype=pl.Array(pl.UInt32, 2)),
        words=pl.Series([["a b"]], dtype=pl.List(pl.Categorical)),
    )
    line = export(lake(tmp_path)).data.decode().splitlines()[1]
    assert line.startswith("255,4294967295,18446744073709551615,1.5,a,a,,2026-03-29 01:00:00+00,")
    assert line.endswith(',1970-01-01 00:00:00.000001,"{1,2}","{""a b""}"')
    row = json.loads(export(lake(tmp_path), "json").data)
    assert (row["pair"], row["words"], row["u64"]) == ([1, 2], ["a b"], 2**64 - 1)
    for column, value in (("u8", 255), ("u64", str(2**64 - 1)), ("e", "a"), ("z", "2026-03-29T03:00:00+02:00")):
        for op, rows in (("=", 1), ("!=", 0), (">=", 1), ("<", 0)):
            where = {"column": column, "op": op, "value": value}
            assert export(lake(tmp_path), query={"filters": where}).produced.rows == rows, where
    assert export(lake(tmp_path), query={"sort": [{"column": "e"}, {"column": "u64"}]}).produced.rows == 1


@pytest.mark.parametrize(
    ("values", "words"),
    [
        (pl.Series([1], dtype=pl.Int64).cast(pl.Datetime("ns")), "'v' holds"),
        (pl.Series([1], dtype=pl.Int64).cast(pl.Time), "'v' holds"),
        (pl.Series([-(2**31)], dtype=pl.Int32).cast(pl.Date), "'v' holds"),
        (pl.Series([-(2**62)], dtype=pl.Int64).cast(pl.Datetime("us")), "'v' holds"),
        (pl.Series([2**62], dtype=pl.Int64).cast(pl.Datetime("ms")), "'v' holds"),
        (pl.Series([[1]], dtype=pl.List(pl.Int64)).cast(pl.List(pl.Datetime("ns"))), "'v' holds"),
    ],
)
@pytest.mark.parametrize("format_", ["csv", "parquet"])
def test_case_02_what_no_type_can_hold_is_refused_by_name(export, tmp_path, values, words, format_):
    write(tmp_path / "x.parquet", id=[1], v=values)
    with pytest.raises(UnrepresentableValue, match=words):
        export(lake(tmp_path), format_)
    assert export(lake(tmp_path), format_, {"columns": ["id"]}).produced.rows == 1


class Printed(DataFrameModel):
    id: pl.Int64
    v: str


def test_a_value_that_cannot_be_printed_is_refused_by_name_in_filters_and_sorts(export, tmp_path):
    write(tmp_path / "x.parquet", id=[1], v=pl.Series([1], dtype=pl.Int64).cast(pl.Datetime("ns")))
    for query in ({"filters": {"column": "v", "op": "contains", "value": "1"}}, {"sort": [{"column": "v"}]}):
        for limit in (None, 5):
            with pytest.raises(UnrepresentableValue, match="'v' holds"):
                export(lake(tmp_path, Printed), query={**query, "columns": ["id"], "limit": limit})


@pytest.mark.parametrize(
    "values",
    [
        pa.array([{"a": 1}]),
        pa.array([[[1]]]),
        pa.array([[("k", 1)]], pa.map_(pa.string(), pa.int64())),
        pa.array([1], pa.duration("us")),
    ],
)
def test_types_without_a_counterpart_are_refused_by_name(export, tmp_path, values):
    pq.write_table(pa.table({"id": [1], "v": values}), tmp_path / "x.parquet")
    with pytest.raises(ContractViolation, match=r"column 'v' is .* which cannot be exported"):
        export(lake(tmp_path))
    assert export(lake(tmp_path), query={"columns": ["id"]}).data == b"id\n1\n"
    assert export(lake(tmp_path, Ids)).data == b"id\n1\n"


class Owned(DataFrameModel):
    id: pl.Int64
    owner: pl.Int32


def test_a_tenant_sees_its_rows_only(export, tmp_path):
    write(tmp_path / "x.parquet", id=[1, 2, 3, 4], owner=pl.Series([7, 8, 7, None], dtype=pl.Int32))
    owned = lake(tmp_path, Owned, tenant="owner")
    everything = {"or": [{"column": "id", "op": "is_null"}, {"column": "id", "op": "not_null"}]}
    other = {"column": "owner", "op": "=", "value": 8}
    for where, rows in ((everything, b"1,7\n3,7\n"), (other, b""), ({"not": other}, b"1,7\n3,7\n")):
        assert export(owned, query={"filters": where}, tenant="7").data == b"id,owner\n" + rows
    assert (
        export(owned, query={"sort": [{"column": "id", "descending": True}], "limit": 1}, tenant="7").data
        == b"id,owner\n3,7\n"
    )
    for tenant in ("7 OR true", "", "x"):
        with pytest.raises(InvalidRequest, match="tenant"):
            export(owned, tenant=tenant)
    with pytest.raises(InvalidRequest, match="tenant"):
        export(owned)


@pytest.mark.parametrize("format_", ["csv", "json", "parquet"])
def test_case_55_no_silent_limit(export, tmp_path, format_):
    pl.DataFrame({"i": range(120_000)}).write_parquet(tmp_path / "x.parquet", row_group_size=7_000)
    seen = []
    result = export(lake(tmp_path), format_, progress=lambda rows, expected: seen.append((rows, expected)))
    assert result.produced.rows == 120_000
    assert (seen[0], seen[-1]) == ((0, 120_000), (120_000, 120_000))
    assert export(lake(tmp_path), format_, {"limit": 10}).produced.rows == 10


def test_pieces_leave_nothing_out(export, tmp_path, monkeypatch):
    monkeypatch.setattr("outhaul.data.lake.PIECE_BYTES", 2_000)
    pl.DataFrame({"i": range(1_000)}).write_parquet(tmp_path / "a.parquet", row_group_size=300)
    pl.DataFrame({"i": []}, schema={"i": pl.Int64}).write_parquet(tmp_path / "b.parquet")
    for k in range(100):
        write(tmp_path / f"c{k:03}.parquet", i=[1_000 + k])

    def rows(where=None, limit=None):
        data = export(lake(tmp_path), query={"filters": where or [], "limit": limit}).data
        return [int(line) for line in data.split()[1:]]

    assert rows() == list(range(1_100))
    assert rows({"column": "i", "op": "between", "value": [299, 1_050]}) == list(range(299, 1_051))
    assert rows({"column": "i", "op": "in", "value": [0, 599, 600, 1_099]}) == [0, 599, 600, 1_099]
    assert rows(limit=310) == list(range(310))
    assert rows({"column": "i", "op": ">", "value": 500}, limit=600) == list(range(501, 1_100))


def test_a_file_that_is_replaced_while_it_is_read_fails_the_export(export, tmp_path):
    path = tmp_path / "x.parquet"
    write(path, id=list(range(1000)))

    def replace(rows, _expected):
        if not rows:  # all is planned, and nothing read
            write(tmp_path / "new", id=list(range(1000, 2000)))
            (tmp_path / "new").replace(path)

    with pytest.raises(SourceError, match=r"'x\.parquet' changed while it was being read") as caught:
        export(lake(path), progress=replace)
    assert classify(caught.value) is Verdict.TRANSIENT
    assert export(lake(path)).data.startswith(b"id\n1000\n")


@pytest.mark.parametrize("sort", [[], [{"column": "id", "descending": True}]])
def test_a_cancel_ends_the_reading(export, tmp_path, sort):
    pl.DataFrame({"id": range(500_000)}).write_parquet(tmp_path / "x.parquet", row_group_size=10_000)
    job = export.prepare(lake(tmp_path, Ids), query={"sort": sort})
    reason = []

    def stop():
        if reason:
            raise Cancelled("the export was cancelled")

    def progress(_rows, _expected):
        reason.append(1)
        job.cancel()

    with pytest.raises(Cancelled):
        job.run(progress=progress, stop=stop)
    assert not [thread for thread in threading.enumerate() if "prefetch" in thread.name]


def test_a_broken_page_fails_the_export(export, tmp_path, store):
    path = tmp_path / "x.parquet"
    write(path, id=[f"text {i}" for i in range(50_000)])
    data = bytearray(path.read_bytes())
    data[1000:2000] = os.urandom(1000)
    path.write_bytes(data)
    with pytest.raises(ContractViolation, match="cannot be read as Parquet"):
        export(lake(path), store=store)
    assert store.files == {}


BIG_FILE = """
import sys
import pyarrow as pa, pyarrow.parquet as pq, pyarrow.compute as pc
ids = pa.array(range(4_000_000))
pad = pc.binary_join_element_wise(pa.scalar("0123456789" * 10), ids.cast(pa.string()), "")
pq.write_table(pa.table({"id": ids, "pad": pad}), sys.argv[1], row_group_size=len(ids), use_dictionary=False)
"""
COPY = """
import sys
from datetime import timedelta
from pathlib import Path
from outhaul.data.catalog import Catalog, Dataset, Lake
from outhaul.service.copying import Copying
from outhaul.service.sources import Sources
peak = 0
def progress(rows, expected):
    global peak
    lines = Path("/proc/self/status").read_text().splitlines()
    peak = max(peak, int(next(line for line in lines if line.startswith("RssAnon")).split()[1]) // 1024)
catalog = Catalog(Dataset("d", Lake(sys.argv[1]), None, shared=True))
copied = Copying(Sources(None, {}, None), timedelta(hours=1), False, None).copy(
    lambda: catalog, dataset="d", sql=None, tenant=None, to=sys.argv[2], raw={"query": eval(sys.argv[3])},
    on_progress=progress)
print(copied.rows, peak)
"""


@pytest.mark.parametrize(
    ("query", "rows"),
    [({}, 4_000_000), ({"sort": [{"column": "pad", "descending": True}], "limit": 1000}, 1000)],
)
def test_case_58_memory_does_not_grow_with_the_file(tmp_path, query, rows):
    """The file is one row group of about 450 MB; whoever takes it whole needs more than that."""
    run = partial(subprocess.run, check=True, capture_output=True, text=True)
    run([sys.executable, "-c", BIG_FILE, tmp_path / "x.parquet"])
    result = run([sys.executable, "-c", COPY, tmp_path / "x.parquet", tmp_path / "out.csv", repr(query)])
    copied, peak = map(int, result.stdout.split())
    assert copied == rows

    assert peak < 450, peak


def test_a_copy_needs_no_database(tmp_path):
    write(tmp_path / "in/x.parquet", id=[1, 2])
    copying = Copying(Sources(None, {}, None), timedelta(hours=1), False, None)
    copied = copying.copy(
        lambda: Catalog(lake(tmp_path / "in", Ids)),
        dataset="d",
        sql=None,
        tenant=None,
        to=str(tmp_path / "out.csv"),
        raw={},
        on_progress=lambda rows, expected: None,
    )
    assert (copied.rows, (tmp_path / "out.csv").read_text()) == (2, "id\n1\n2\n")


@pytest.fixture
def aws(request, monkeypatch):
    """The environment of an S3 server, and its client."""

    def use(name):
        server = request.getfixturevalue(name)
        for key, value in server.environment.items():
            monkeypatch.setenv(key, value)
        return server.client()

    return use


@pytest.mark.parametrize("name", ["moto", "juicefs"])
def test_s3(export, tmp_path, aws, name):
    client = aws(name)
    for key, ids in (("year=2025/shop=a b+c/1.parquet", [1, 2]), ("year=2026/shop=é%2F/2.parquet", [3])):
        write(tmp_path / key, id=ids)
        client.put_object(Bucket=BUCKET, Key=f"lake/{key}", Body=(tmp_path / key).read_bytes())
    for path in ("lake", "lake/", "lake/**/*.parquet", "lake/year=*/*/?.parquet"):
        found = export(lake(f"s3://{BUCKET}/{path}", Sales))
        assert found.data.decode() == "id,year,shop\n1,2025,a b+c\n2,2025,a b+c\n3,2026,é/\n"
    mine = lake(f"s3://{BUCKET}/lake", Sales, tenant="shop")
    assert (
        export(mine, query={"sort": [{"column": "id", "descending": True}]}, tenant="a b+c").data[-24:]
        == (b"2,2025,a b+c\n1,2025,a b+c\n"[-24:])
    )
    one = export(lake(f"s3://{BUCKET}/lake/year=2025/shop=a b+c/1.parquet", Ids), "parquet").data
    assert pl.read_parquet(io.BytesIO(one))["id"].to_list() == [1, 2]
    for nothing in (f"s3://{BUCKET}/nothing", "s3://no-such-bucket/lake"):
        with pytest.raises(ContractViolation, match="no Parquet files"):
            export(lake(nothing))


def test_s3_failures_in_plain_words(export, aws, monkeypatch):
    client = aws("juicefs")
    body = io.BytesIO()
    pl.DataFrame({"id": [1]}).write_parquet(body)
    client.put_object(Bucket=BUCKET, Key="mine/x.parquet", Body=body.getvalue())
    client.put_object(Bucket=BUCKET, Key="bad/x.parquet", Body=b"nothing of the kind")
    with pytest.raises(ContractViolation, match="cannot be read as Parquet"):
        export(lake(f"s3://{BUCKET}/bad"))
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wrong")
    with pytest.raises(SourceError, match=r"access is denied\.$") as caught:
        export(lake(f"s3://{BUCKET}/mine"))
    assert "127.0.0.1" not in caught.value.message
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    with pytest.raises(SourceError, match="does not answer as it should") as caught:
        export(lake(f"s3://{BUCKET}/mine"))
    assert classify(caught.value) is Verdict.TRANSIENT


def test_s3_objects_that_are_replaced(export, aws):
    client = aws("moto")

    def put(count):
        body = io.BytesIO()
        pl.DataFrame({"id": range(count)}).write_parquet(body)
        client.put_object(Bucket=BUCKET, Key="changing/x.parquet", Body=body.getvalue())

    put(1000)
    with pytest.raises(SourceError, match="changed while it was being read"):
        export(lake(f"s3://{BUCKET}/changing"), progress=lambda rows, _expected: None if rows else put(2000))
