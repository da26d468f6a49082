from __future__ import annotations

import hashlib
import json
import threading
import time
from typing import Annotated

import polars as pl
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


def test_case_35_renamed_and_back_with_another_type(orders, store):
    orders.sql(
        "ALTER TABLE orders RENAME amount TO sum",
        "ALTER TABLE orders ADD COLUMN amount text NOT NULL DEFAULT '1.5'",
    )
    with pytest.raises(ContractViolation, match="column 'amount' is text, which does not fit the promised Decimal"):
        orders(ORDERS, store=store)
    assert store.uploads == []
    narrowed = orders(ORDERS, query={"columns": ["id"]}).produced
    assert narrowed.rows == 1000
    assert "column 'sum' is new and not in the contract" in narrowed.notes
    assert any("'amount' is text" in note for note in narrowed.notes)
    followed = orders("SELECT * FROM orders", "parquet")
    assert [(c["name"], c["source_type"]) for c in followed.produced.manifest["schema"]] == [
        ("id", "int4"),
        ("sum", "numeric(9,2)"),
        ("note", "text"),
        ("amount", "text"),
    ]
    assert pl.read_parquet(followed.data)["amount"].unique().to_list() == ["1.5"]


def alter(export, wait="200ms"):
    """Try to alter the table; returns the SQLSTATE if that has to wait for longer than ``wait``."""
    with psycopg.connect(export.url, autocommit=True, options=f"-c lock_timeout={wait}") as connection:
        try:
            connection.execute("ALTER TABLE orders ADD COLUMN IF NOT EXISTS later int")
        except psycopg.errors.LockNotAvailable as error:
            return error.sqlstate
    return None


@pytest.mark.parametrize("format_", FORMATS)
def test_case_35_an_alter_waits_for_the_read_and_no_longer(orders, format_):
    outcomes = []
    produced = orders(ORDERS, format_, stop=lambda: outcomes.append(alter(orders))).produced
    before, *during, after = outcomes  # the connection is opened; batches; all is read, and about to appear
    assert (before, set(during), after) == (None, {"55P03"}, None)
    assert produced.rows == 1000
    assert produced.notes == ("column 'later' is new and not in the contract",)


@pytest.mark.parametrize("format_", FORMATS)
def test_case_35_a_failed_read_holds_no_table(orders, store, format_):
    during = []

    def progress(rows, _expected):
        during.append(alter(orders))

    select = "SELECT id, 1 / (id - 900) AS z FROM orders ORDER BY id"
    with pytest.raises(SourceError, match="22012"):
        orders(select, format_, store=store, progress=progress)
    assert alter(orders) is None
    orders.sql("UPDATE orders SET amount = -1")
    with pytest.raises(ContractViolation):
        orders(ORDERS, format_, store=store, progress=progress)
    assert set(during) == {"55P03"}
    assert alter(orders) is None
    assert_nothing_left(orders, store)


def test_case_35_columns_come_and_go_while_exports_run(orders):
    """Whatever was prepared is described anew: 0A000 (cached plan must not change result type) never shows."""
    ended = threading.Event()

    def change():
        with psycopg.connect(orders.url, autocommit=True) as connection:
            while not ended.wait(0.02):  # a table can have 1,600 columns in all its life
                connection.execute("ALTER TABLE orders ADD COLUMN extra int")
                connection.execute("ALTER TABLE orders DROP COLUMN extra")

    thread = threading.Thread(target=change)
    thread.start()
    try:
        for _ in range(20):
            header, *lines = orders("SELECT * FROM orders").data.decode().splitlines()
            assert header in {"id,amount,note", "id,amount,note,extra"}
            assert {line.count(",") for line in lines} == {header.count(",")}
            assert len(lines) == orders(ORDERS).produced.rows == 1000
    finally:
        ended.set()
        thread.join()


REWRITES = {
    "retype": ["ALTER TABLE orders ALTER id TYPE bigint"],
    "default": ["ALTER TABLE orders ADD COLUMN lot float DEFAULT random()"],
    "reload": ["CREATE TEMP TABLE aside AS TABLE orders", "TRUNCATE orders", "INSERT INTO orders TABLE aside"],
    "swap": [
        "CREATE TABLE fresh (LIKE orders INCLUDING ALL)",
        "INSERT INTO fresh TABLE orders",
        "DROP TABLE orders CASCADE",
        "ALTER TABLE fresh RENAME TO orders",
    ],
}


@pytest.mark.parametrize("rewrite", REWRITES)
@pytest.mark.parametrize("format_", FORMATS)
def test_case_35_a_table_rewritten_as_the_export_starts(orders, store, format_, rewrite):
    """The export waits for the change to end. To the snapshot it took before, the new table has no rows at all."""
    assert_refused_then_whole(orders, store, ORDERS, format_, REWRITES[rewrite])


def test_case_35_a_partition_rewritten_as_the_export_starts(orders, store):
    orders.sql(
        "CREATE TABLE whole (id int NOT NULL) PARTITION BY RANGE (id)",
        "CREATE TABLE part PARTITION OF whole FOR VALUES FROM (0) TO (2000)",
        "INSERT INTO whole SELECT id FROM orders",
        "CREATE VIEW seen AS SELECT * FROM whole WHERE id > 0",
    )
    reload = ["CREATE TEMP TABLE aside AS TABLE part", "TRUNCATE part", "INSERT INTO part TABLE aside"]
    assert_refused_then_whole(orders, store, "SELECT * FROM seen", "csv", reload)


def assert_refused_then_whole(export, store, source, format_, statements):
    caught = []

    def run():
        try:
            export(source, format_, store=store)
        except SourceError as error:
            caught.append(error)

    thread = threading.Thread(target=run)
    with psycopg.connect(export.url) as changing, psycopg.connect(export.url, autocommit=True) as watching:
        for statement in statements:
            changing.execute(statement)
        thread.start()
        waiting = (
            "SELECT count(*) FROM pg_stat_activity WHERE application_name ~ 'outhaul' AND wait_event_type = 'Lock'"
        )
        while watching.execute(waiting).fetchone() == (0,):
            assert thread.is_alive()
            time.sleep(0.02)
        changing.commit()
    thread.join()
    assert [(error.sqlstate, classify(error)) for error in caught] == [("40001", Verdict.TRANSIENT)]
    assert "just before it was read: try again" in caught[0].message
    assert_nothing_left(export, store)
    assert export(source, format_).produced.rows == 1000


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
    assert classify(caught.value) is Verdict.SOURCE_DOWN
    assert store.uploads == []
