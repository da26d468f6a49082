"""Large results: read, written and stored piece by piece, by a process of its own that is watched from outside."""

from __future__ import annotations

import gzip
import json
import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

import polars as pl
import psycopg
import pyarrow.parquet as pq
import pytest
from s3_server import BUCKET

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

BOUND = 450 << 20
MANY, FEW = 1_200_000, 300_000
ACTIVE = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'outhaul:copy:1' AND state = 'active'"
# Starts a program while it holds much memory itself, as a worker of another kind may.
FAT_PARENT = """
import subprocess, sys
held = bytearray(600 << 20)
held[::4096] = bytes(len(held) // 4096)
sys.exit(subprocess.run(sys.argv[1:]).returncode)
"""


def rows(count: int) -> str:
    return f"SELECT i, repeat(md5(i::text), 8) AS pad FROM generate_series(1,{count}) i"


@pytest.fixture
def start(source_url, tmp_path):
    """Start ``outhaul copy --sql``."""

    @contextmanager
    def start(sql: str, to: str, *, env: dict[str, str] | None = None, parent=()) -> Iterator[subprocess.Popen[str]]:
        command = [*parent, sys.executable, "-m", "outhaul", "copy", "--sql", sql, "--to", to, "--json"]
        env = {
            **os.environ,
            "OUTHAUL_SOURCE_URL": source_url,
            "OUTHAUL_HOME": str(tmp_path / "home"),
            "PYTHONPATH": os.pathsep.join(sys.path),
            **(env or {}),
        }
        with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            yield process

    return start


@pytest.fixture
def active(source_url) -> Iterator[Callable[[], bool]]:
    """Whether a copy's query runs."""
    with psycopg.connect(source_url, autocommit=True) as connection:
        yield lambda: connection.execute(ACTIVE).fetchone() == (1,)


def answer(process: subprocess.Popen[str]) -> dict:
    said, complained = process.communicate(timeout=240)
    assert process.returncode == 0, complained
    return json.loads(said)


def await_first_bytes(process, active: Callable[[], bool], stored: Callable[[], int]) -> None:
    """Return once bytes are stored while the query still runs; fail if it ends first."""
    while not (stored() and active()):
        assert process.poll() is None, process.stderr.read() or "the query ended before anything was stored"
        time.sleep(0.02)


def in_folder(folder: Path) -> Callable[[], int]:
    return lambda: sum(path.stat().st_size for path in folder.iterdir() if path.is_file())


def read(path: Path) -> pl.LazyFrame:
    match path.suffixes:
        case [".csv"]:
            return pl.scan_csv(path)
        case [".csv", ".gz"]:
            return pl.read_csv(gzip.decompress(path.read_bytes())).lazy()
        case [".jsonl"]:
            return pl.scan_ndjson(path)
    return pl.scan_parquet(path)


def assert_whole(path: Path, count: int) -> None:
    found = read(path).select(
        pl.len(),
        pl.col("i").cast(pl.Int64).sum(),
        pl.col("i").n_unique().alias("different"),
        pl.col("pad").str.len_bytes().sum().alias("bytes"),
    )
    assert found.collect().row(0) == (count, count * (count + 1) // 2, count, 256 * count)


@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet"])
def test_case_58_memory_does_not_grow_with_the_rows(start, active, tmp_path, ending):
    folder = tmp_path / "out"
    folder.mkdir()
    peaks = []
    for count in (FEW, MANY):
        to = folder / f"{count}.{ending}"
        with start(rows(count), str(to)) as process:
            if count == MANY:
                (folder / f"{FEW}.{ending}").unlink()
                await_first_bytes(process, active, in_folder(folder))
            copied = answer(process)
        assert (copied["rows"], copied["bytes"]) == (count, to.stat().st_size)
        assert_whole(to, count)
        peaks.append(copied["peak_rss_bytes"])
    assert max(peaks) < BOUND
    # The same export peaks up to 80 MB apart, as its threads happen to meet. Rows that stayed would show in full.
    assert peaks[1] - peaks[0] < (MANY - FEW) * 256 // 2, "four times the rows must not need more memory"
    if ending == "parquet":
        metadata = pq.ParquetFile(to).metadata
        sizes = [metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)]
        assert len(sizes) > 1
        assert all(10_000 <= size <= 1_500_000 for size in sizes[:-1]), sizes


def test_case_58_compressed(start, active, tmp_path):
    folder = tmp_path / "out"
    folder.mkdir()
    with start(rows(FEW), str(folder / "x.csv.gz")) as process:
        await_first_bytes(process, active, in_folder(folder))
        copied = answer(process)
    assert copied["peak_rss_bytes"] < BOUND
    assert copied["bytes"] < FEW * 256 // 4
    assert_whole(folder / "x.csv.gz", FEW)


def test_case_58_the_first_part_is_in_s3_before_the_query_ends(start, active, moto, tmp_path):
    client = moto.client()

    def stored() -> int:
        uploads = client.list_multipart_uploads(Bucket=BUCKET, Prefix="case-58/").get("Uploads", [])
        parts = [client.list_parts(Bucket=BUCKET, Key=u["Key"], UploadId=u["UploadId"]) for u in uploads]
        return sum(part["Size"] for found in parts for part in found.get("Parts", []))

    with start(rows(FEW * 2), f"s3://{BUCKET}/case-58/x.csv", env=moto.environment) as process:
        await_first_bytes(process, active, stored)
        copied = answer(process)
    assert copied["peak_rss_bytes"] < BOUND
    client.download_file(BUCKET, "case-58/x.csv", str(tmp_path / "x.csv"))
    assert_whole(tmp_path / "x.csv", FEW * 2)
    client.delete_object(Bucket=BUCKET, Key="case-58/x.csv")


@pytest.mark.parametrize("ending", ["csv.gz", "parquet"])
def test_case_58_a_cancel_takes_effect_in_seconds(start, active, tmp_path, ending):
    folder = tmp_path / "out"
    folder.mkdir()
    endless = "SELECT i, repeat(md5(i::text), 8) AS pad FROM (SELECT generate_series(1, 1000000000000) AS i) AS q"
    with start(endless, str(folder / f"x.{ending}")) as process:
        await_first_bytes(process, active, in_folder(folder))
        asked = time.monotonic()
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)
        assert time.monotonic() - asked < 15
    assert process.returncode == 128 + signal.SIGTERM
    assert list(folder.iterdir()) == []
    for _ in range(100):
        if not active():
            break
        time.sleep(0.02)
    else:
        pytest.fail("the query outlives its process")


def test_case_58_the_peak_is_of_the_copy_alone(start, tmp_path):
    with start(rows(10), str(tmp_path / "x.csv"), parent=[sys.executable, "-c", FAT_PARENT]) as process:
        assert answer(process)["peak_rss_bytes"] < BOUND
