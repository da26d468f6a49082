"""The demo's data is what it says, and keeps the contracts of the demo's catalog."""

from __future__ import annotations

import polars as pl
import psycopg
import pytest

from outhaul.demo.catalog import catalog
from outhaul.demo.load import TABLES, _open, airlines, load
from outhaul.errors import Unavailable

COUNTS = {"airlines": 16, "airports": 1458, "planes": 3322, "weather": 26115, "flights": 336776}


@pytest.fixture(scope="module")
def demo(pg):
    load(pg.url("demo"))
    with psycopg.connect(pg.url("demo")) as connection:
        yield connection


def ask(connection, query):
    return connection.execute(query).fetchall()


def test_counts(demo):
    assert {table: ask(demo, f"SELECT count(*) FROM {table}")[0][0] for table in TABLES} == COUNTS
    assert ask(demo, "SELECT count(*) FROM flights WHERE carrier = 'UA'") == [(58665,)]
    assert len(airlines()) == 16
    assert dict(airlines())["UA"] == "United Air Lines Inc."


def test_loading_again_changes_nothing(pg, demo):
    assert load(pg.url("demo")) is False
    assert ask(demo, "SELECT count(*) FROM flights") == [(336776,)]


def test_every_value_is_that_of_the_files(demo):
    numbers = ["lat", "lon", "temp", "dewp", "humid", "wind_speed", "wind_gust", "precip", "pressure", "visib"]
    instant = "to_char({} AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS\"Z\"')"
    for table in TABLES:
        with _open(table) as file:
            expected = pl.read_csv(file.read(), infer_schema=False, null_values="NA")
        columns = [instant.format(name) if name == "time_hour" else f"{name}::text" for name in expected.columns]
        order = "flight_id" if table == "flights" else "ctid"  # as loaded
        rows = ask(demo, f"SELECT {', '.join(columns)} FROM {table} ORDER BY {order}")
        found = pl.DataFrame(rows, schema=expected.schema, orient="row")
        cast = pl.col([name for name in numbers if name in found.columns]).cast(pl.Float64)
        assert found.with_columns(cast).equals(expected.with_columns(cast)), table


def test_time_hour_is_the_local_hour_in_new_york(demo):
    local = "time_hour AT TIME ZONE 'America/New_York'"
    for table in ("flights", "weather"):
        assert ask(
            demo, f"SELECT count(*) FROM {table} WHERE {local} <> make_timestamp(year, month, day, hour, 0, 0)"
        ) == [(0,)]


def test_cancelled_flights_keep_their_nulls(demo):
    assert ask(
        demo, "SELECT count(*), count(dep_time), count(arr_time), count(air_time), count(tailnum) FROM flights"
    ) == [(336776, 328521, 328063, 327346, 334264)]


@pytest.mark.parametrize("dataset", list(catalog), ids=lambda d: d.name)
def test_contracts_fit_the_data(demo, dataset):
    sql = getattr(dataset.source, "sql", None) or f"SELECT * FROM {dataset.source.name}"
    cursor = demo.execute(sql)
    schema = {column.name: column.dtype for column in dataset.columns}
    assert [column.name for column in cursor.description] == list(schema)
    frame = pl.DataFrame(cursor.fetchall(), schema=schema, orient="row")
    dataset.contract.validate(frame, lazy=True)
    for column in dataset.columns:
        assert column.description
        assert column.nullable == (frame[column.name].null_count() > 0), column.name


def test_tenants_see_their_own_and_weather_is_open():
    assert {dataset.name: (dataset.tenant, dataset.shared) for dataset in catalog} == {
        "flights": ("carrier", False),
        "flight_planes": ("carrier", False),
        "weather": (None, True),
    }


def test_a_database_that_is_not_there_is_one_plain_line():
    with pytest.raises(Unavailable, match="OUTHAUL_SOURCE_URL") as caught:
        load("postgresql://nobody@127.0.0.1:1/nothing")
    assert "\n" not in caught.value.message
