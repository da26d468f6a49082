from __future__ import annotations

import gzip
import hashlib
import io
import json

import polars as pl
import pyarrow.parquet as pq
import pytest

from outhaul.data import parts
from outhaul.errors import InvalidRequest, StoreError

ROWS = (
    "SELECT i, md5(i::text) || md5('a' || i) || md5('b' || i) || md5('c' || i) || md5('d' || i) AS pad "
    "FROM generate_series(1, {}) AS i"
)
READ = {
    "csv": lambda data: pl.read_csv(data)["i"].to_list(),
    "json": lambda data: pl.read_ndjson(data)["i"].to_list(),
    "parquet": lambda data: pl.read_parquet(data)["i"].to_list(),
}


def files(result) -> dict[str, bytes]:
    return {name: data for name, data in result.store.files.items() if name != "manifest.json"}


@pytest.mark.parametrize("format_", ["csv", "json", "parquet"])
@pytest.mark.parametrize(("rows", "counts"), [(0, [0]), (999, [999]), (1000, [1000]), (2500, [1000, 1000, 500])])
def test_max_rows_per_file(export, format_, rows, counts):
    result = export(ROWS.format(rows), format_, options={"max_rows_per_file": 1000})
    written = files(result)
    ending = {"csv": "csv", "json": "jsonl", "parquet": "parquet"}[format_]
    assert list(written) == [f"query-{part:05}.{ending}" for part in range(len(counts))]
    assert [file.row_count for file in result.produced.files] == counts
    assert result.produced.manifest["rows"] == result.produced.rows == rows
    for listed, (name, data) in zip(result.produced.manifest["files"], written.items(), strict=True):
        assert listed == {
            "key": name,
            "rows": listed["rows"],
            "bytes": len(data),
            "sha256": hashlib.sha256(data).hexdigest(),
        }
    if rows:
        assert [i for data in written.values() for i in READ[format_](data)] == list(range(1, rows + 1))
    assert result.store.finished == list(written)[:-1], "files that wait for the end must not keep memory"


@pytest.mark.parametrize(
    ("format_", "options"),
    [
        ("csv", {}),
        ("csv", {"compression": "gzip"}),
        ("json", {"compression": "zstd"}),
        ("json", {"layout": "array"}),
        ("parquet", {}),
        ("parquet", {"compression": "none"}),
    ],
)
def test_max_bytes_per_file(export, format_, options):
    most = 2 << 20
    result = export(ROWS.format(60_000), format_, options={**options, "max_bytes_per_file": most})
    sizes = [len(data) for data in files(result).values()]
    assert len(sizes) > 1
    assert max(sizes) <= most * 1.01
    assert min(sizes[:-1]) > most * 0.6, "files are filled before the next one begins"
    assert sum(file.row_count for file in result.produced.files) == 60_000


def test_every_part_is_whole(export):
    result = export(ROWS.format(10), "json", options={"layout": "array", "max_rows_per_file": 4})
    assert [[row["i"] for row in json.loads(data)] for data in files(result).values()] == [
        [1, 2, 3, 4], [5, 6, 7, 8], [9, 10]
    ]  # fmt: skip
    schemas = [
        pq.read_schema(io.BytesIO(data))
        for data in files(export(ROWS.format(10), "parquet", options={"max_rows_per_file": 4})).values()
    ]
    assert all(schema.equals(schemas[0], check_metadata=True) for schema in schemas)


def test_a_late_failure_leaves_no_part(export, store):
    select = "SELECT i, repeat('x', 200) AS pad, 1 / (i - 90000) AS z FROM generate_series(1, 100000) AS i"
    with pytest.raises(Exception, match="22012"):
        export(select, options={"max_rows_per_file": 1000}, store=store)
    assert store.files == {}
    assert {upload.ended for upload in store.uploads} == {"aborted"}
    assert len(store.uploads) > 10


def test_a_part_that_does_not_appear_takes_the_others_along(export, store):
    opened = store.open_upload

    def third_fails(name, content_type):
        upload = opened(name, content_type)
        if name.startswith("query-00002"):
            upload.complete = lambda: (_ for _ in ()).throw(StoreError("The file store is away.", status=503))
        return upload

    store.open_upload = third_fails
    with pytest.raises(StoreError, match="away"):
        export(ROWS.format(10), options={"max_rows_per_file": 2}, store=store)
    assert store.files == {}


def test_too_many_files(export, store, monkeypatch):
    monkeypatch.setattr(parts, "MAX_PARTS", 5)
    with pytest.raises(InvalidRequest, match="more than 5 files would be needed: raise max_rows_per_file"):
        export(ROWS.format(100), options={"max_rows_per_file": 10}, store=store)
    assert store.files == {}


def test_each_part_is_compressed_by_itself(export):
    result = export(ROWS.format(10), options={"compression": "gzip", "max_rows_per_file": 5})
    assert [len(gzip.decompress(data).splitlines()) for data in files(result).values()] == [6, 6]
