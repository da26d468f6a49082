from __future__ import annotations

import hashlib
import json
import threading
import time
from typing import Annotated

import polars as pl  # noqa: TC002 - Pandera reads the annotations
import psycopg
import pytest
from pandera.polars import DataFrameModel, Field

from outhaul.data.catalog import Dataset, Select, Table
from outhaul.domain.retry import Verdict, classify
from outhaul.errors import Cancelled, ContractViolation, SourceError, StoreError

FORMATS = ["csv", "json", "parquet"]
LATE_FAILURE = "SELECT i, CASE WHEN i = 90000 THEN 1/(i-90000) ELSE 0 END AS z FROM generate_series(1,100000) i"


def assert_nothing_left(export, store):
    assert store.files == {}
    assert {upload.ended for upload in store.uploads} <= {"aborted"}
    with psycopg.connect(export.url) as connection:
        for _ in range(50):
            left = connection.execute(
                "SELECT count(*) FROM pg_stat_activity WHERE application_name LIKE 'outhaul:%'"
            ).fetchone()[0]
            if not left:
                return
            time.sleep(0.1)
    pytest.fail("a session is left on the source")


@pytest.mark.parametrize("format_", FORMATS)
def test_case_33_late_failure_leaves_nothing(export, store, format_):
    with pytest.raises(SourceError, match=r"divides by zero.*22012") as caught:
        export(LATE_FAILURE, format_, store=store)
    assert caught.value.sqlstate == "22012"
    assert classify(caught.value) is Verdict.PERMANENT
    assert_nothing_left(export, store)


@pytest.mark.parametrize("format_", FORMATS)
def test_case_33_terminated_backend(export, store, format_):
    def kill(rows, _expected):
        if rows:
            with psycopg.connect(export.url, autocommit=True) as connection:
                connection.execute(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'outhaul:7e57:1'"
                )

    select = "SELECT i, repeat(md5(i::text), 20) AS pad FROM generate_series(1,400000) i"
    with pytest.raises(SourceError) as caught:
        export(select, format_, store=store, progress=kill)
    assert classify(caught.value) is Verdict.TRANSIENT
    assert_nothing_left(export, store)


@pytest.mark.parametrize("format_", FORMATS)
def test_case_33_full_store(export, store, format_):
    store.fail_after, store.error = 1_000, StoreError("the disk is full")
    with pytest.raises(StoreError, match="full"):
        export("SELECT i, md5(i::text) AS t FROM generate_series(1,300000) i", format_, store=store)
    assert_nothing_left(export, store)


def test_statement_timeout(export, store):
    from datetime import timedelta

    from outhaul.data.session import Limits

    with pytest.raises(SourceError) as caught:
        export("SELECT pg_sleep(60)::text AS s", store=store, limits=Limits(statement_timeout=timedelta(seconds=0.3)))
    assert caught.value.sqlstate == "57014"
    assert_nothing_left(export, store)


def test_cancel_cuts_a_silent_query_short(export, store):
    reason = []

    def stop():
        if reason:
            raise reason[0]

    def cancel():
        time.sleep(0.5)
        reason.append(Cancelled("a person said so"))
        running.cancel()

    running = export.prepare("SELECT pg_sleep(60)::text AS s", store=store)
    thread = threading.Thread(target=cancel)
    thread.start()
    started = time.monotonic()
    with pytest.raises(Cancelled, match="a person"):
        running.run(stop=stop)
    thread.join()
    assert time.monotonic() - started < 10
    assert_nothing_left(export, store)


def test_stop_between_batches(export, store):
    def stop():
        if store.uploads and len(store.uploads[0].data) > 1000:
            raise Cancelled("enough")

    with pytest.raises(Cancelled):
        export("SELECT i, repeat('x', 500) AS t FROM generate_series(1,300000) i", store=store, stop=stop)
    assert_nothing_left(export, store)


def test_manifest_and_counts(export):
    seen = []
    result = export(
        "SELECT i, md5(i::text) AS t FROM generate_series(1,1000) i",
        "json",
        {"filters": {"column": "i", "op": "<=", "value": 500}},
        prefix="acme/7e57/1-1/",
        progress=lambda rows, expected: seen.append((rows, expected)),
    )
    produced, store = result.produced, result.store
    assert list(store.files) == ["query-00000.jsonl", "manifest.json"]
    manifest = json.loads(store.files["manifest.json"])
    data = store.files["query-00000.jsonl"]
    assert manifest["files"] == [
        {
            "key": "acme/7e57/1-1/query-00000.jsonl",
            "rows": 500,
            "bytes": len(data),
            "sha256": hashlib.sha256(data).hexdigest(),
        }
    ]
    assert (manifest["rows"], produced.rows, produced.byte_count) == (500, 500, len(data))
    assert manifest["query"] == {"filters": {"column": "i", "op": "<=", "value": 500}}
    assert [column["source_type"] for column in manifest["schema"]] == ["int4", "text"]
    assert seen[0][0] == 0
    assert seen[-1][0] == 500
    assert seen[0][1] > 0


class Orders(DataFrameModel):
    id: pl.Int64 = Field(ge=1, description="Number of the order")
    amount: Annotated[pl.Decimal, 14, 2] = Field(ge=0)
    note: str = Field(nullable=True)


ORDERS = Dataset("orders", Table("orders"), Orders, shared=True)


@pytest.fixture
def orders(export):
    export.sql(
        "CREATE TABLE orders (id int NOT NULL, amount numeric(9,2) NOT NULL, note text)",
        "INSERT INTO orders SELECT i, i / 4.0, CASE WHEN i % 2 = 0 THEN 'n' || i END FROM generate_series(1,1000) i",
    )
    return export


def test_the_contract_decides_the_schema(orders):
    import io

    import pyarrow.parquet as pq

    file = pq.ParquetFile(io.BytesIO(orders(ORDERS, "parquet").data))
    assert [(f.name, str(f.type), f.nullable) for f in file.schema_arrow] == [
        ("id", "int64", False),
        ("amount", "decimal128(14, 2)", False),
        ("note", "string", True),
    ]
    assert file.metadata.metadata[b"outhaul.dataset"] == b"orders"
    assert file.schema_arrow.field("id").metadata[b"description"] == b"Number of the order"


@pytest.mark.parametrize("format_", FORMATS)
def test_a_broken_check_publishes_nothing(orders, store, format_):
    orders.sql("UPDATE orders SET amount = -amount WHERE id IN (5, 7)")
    with pytest.raises(ContractViolation) as caught:
        orders(ORDERS, format_, store=store)
    assert "column 'amount' breaks its contract: greater_than_or_equal_to(0) does not hold in 2 of the first 1,000" in (
        caught.value.message
    )
    assert "-1.25" in caught.value.message
    assert_nothing_left(orders, store)
    with pytest.raises(ContractViolation) as hidden:
        orders(ORDERS, format_, hide_values=True)
    assert "1.25" not in hidden.value.message


def test_null_in_a_promised_column(orders, store):
    orders.sql("ALTER TABLE orders ALTER amount DROP NOT NULL", "UPDATE orders SET amount = NULL WHERE id = 3")
    with pytest.raises(ContractViolation, match="'amount' breaks its contract: not NULL does not hold in 1 of"):
        orders(ORDERS, store=store)
    assert_nothing_left(orders, store)


def test_case_35_dropped_column(orders, store):
    orders.sql("ALTER TABLE orders DROP COLUMN note")
    with pytest.raises(ContractViolation, match="column 'note' is missing") as caught:
        orders(ORDERS, store=store)
    assert classify(caught.value) is Verdict.PERMANENT
    assert store.uploads == []
    partial = orders(ORDERS, query={"columns": ["id"]})
    assert partial.produced.rows == 1000
    assert partial.produced.notes == ("column 'note' is missing",)


def test_case_35_dropped_table(orders, store):
    orders.sql("DROP TABLE orders")
    with pytest.raises(SourceError, match=r"table no longer exists.*42P01") as caught:
        orders(ORDERS, store=store)
    assert classify(caught.value) is Verdict.PERMANENT
    assert store.uploads == []


def test_case_35_dropped_column_inside_a_select(orders):
    dataset = Dataset("d", Select("SELECT id, amount, note FROM orders"), Orders, shared=True)
    orders.sql("ALTER TABLE orders DROP COLUMN note")
    with pytest.raises(SourceError, match=r"column of the dataset no longer exists.*42703") as caught:
        orders(dataset)
    assert classify(caught.value) is Verdict.PERMANENT


def test_case_35_retyped_and_new_columns(orders):
    orders.sql("ALTER TABLE orders ADD COLUMN extra int")
    assert orders(ORDERS).produced.notes == ("column 'extra' is new and not in the contract",)
    orders.sql("ALTER TABLE orders ALTER id TYPE text USING id::text")
    with pytest.raises(ContractViolation, match="column 'id' is text, which does not fit the promised Int64"):
        orders(ORDERS)


def test_one_snapshot(orders):
    def delete(rows, _expected):
        if rows == 0:
            orders.sql("DELETE FROM orders")

    assert orders(ORDERS, progress=delete).produced.rows == 1000


def test_cannot_connect(export, store):
    export.url = "postgresql://nobody@127.0.0.1:1/x"
    with pytest.raises(SourceError, match="cannot be reached") as caught:
        export("SELECT 1 AS a", store=store)
    assert "127.0.0.1" not in caught.value.message
    assert classify(caught.value) is Verdict.TRANSIENT
    assert store.uploads == []
