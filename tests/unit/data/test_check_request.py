from __future__ import annotations

from typing import Annotated

import polars as pl
import pytest
from pandera.polars import DataFrameModel, Field

from outhaul.data.catalog import Dataset, Table
from outhaul.data.query import check_request
from outhaul.domain.request import parse_request
from outhaul.errors import InvalidRequest


class Model(DataFrameModel):
    id: pl.Int64
    name: str = Field(nullable=True)
    price: Annotated[pl.Decimal, 9, 2]
    score: float
    active: bool
    day: pl.Date
    at: Annotated[pl.Datetime, "us", "UTC"]
    wall: Annotated[pl.Datetime, "us", None]
    clock: pl.Time
    raw: pl.Binary
    tags: Annotated[pl.List, pl.String]


DATASET = Dataset("d", Table("t"), Model, shared=True)


def check(**query) -> None:
    check_request(DATASET, parse_request({"dataset": "d", "query": query}))


def one(column, op, value=None, **more) -> dict:
    return {"column": column, "op": op, "value": value, **more}


GOOD = [
    one("id", "=", 2**63 - 1), one("name", "icontains", "%"), one("price", "<", 1.5), one("price", "=", "1.50"),
    one("score", ">", "NaN"), one("score", "in", [1, 2.5]), one("active", "!=", True), one("day", "=", "2026-02-28"),
    one("at", ">=", "2026-06-30T12:00:00Z"), one("at", "on", "2026-06-30", zone="Europe/Berlin"),
    one("at", "on", ["2026-06-30", "2026-07-01"]), one("wall", "<", "2026-06-30 12:00"), one("clock", "<", "12:30"),
    one("raw", "is_null"), one("tags", "not_null"), one("id", "in", []),
]  # fmt: skip


@pytest.mark.parametrize("where", GOOD, ids=str)
def test_accepts(where):
    check(filters={"not": where})


BAD = [
    (one("nme", "=", "x"), "filters.column", "Did you mean 'name'"),
    (one("id", "contains", "x"), "filters.op", "does not fit column 'id' of type Int64"),
    (one("tags", "=", "x"), "filters.op", "Allowed: is_null, not_null"),
    (one("raw", "=", "x"), "filters.op", "does not fit"),
    (one("name", "on", "2026-01-01"), "filters.op", "does not fit"),
    (one("active", "<", True), "filters.op", "does not fit"),
    (one("id", "=", "5"), "filters.value", "'5' is not a whole number"),
    (one("id", "=", 1.5), "filters.value", "not a whole number"),
    (one("id", "=", True), "filters.value", "not a whole number"),
    (one("id", "=", 2**63), "filters.value", "64 bits"),
    (one("id", "in", [1, None]), "filters.value[1]", "None is not"),
    (one("name", "=", 5), "filters.value", "not a text"),
    (one("name", "=", "a\x00b"), "filters.value", "NUL"),
    (one("name", "=", "\ud800"), "filters.value", "not a text"),
    (one("price", "=", "1,5"), "filters.value", "not a number"),
    (one("price", "=", "NaN"), "filters.value", "not a number"),
    (one("active", "=", "yes"), "filters.value", "true or false"),
    (one("day", "=", "2026-02-29"), "filters.value", "not a date"),
    (one("day", "on", "30.6.2026"), "filters.value", "not a date"),
    (one("at", "on", ["2026-01-01", "2026-13-01"]), "filters.value[1]", "not a date"),
    (one("at", "on", ["2026-01-01"]), "filters.value", "two dates"),
    (one("at", "=", "2026-06-30T12:00:00"), "filters.value", "with offset"),
    (one("wall", "=", "2026-06-30T12:00:00Z"), "filters.value", "without offset"),
    (one("at", "on", "2026-06-30", zone="Europe/Berlim"), "filters.zone", "Did you mean 'Europe/Berlin'"),
    (one("clock", "=", "25:00"), "filters.value", "time of day"),
]


@pytest.mark.parametrize(("where", "field", "words"), BAD, ids=lambda value: str(value)[:40])
def test_refuses(where, field, words):
    with pytest.raises(InvalidRequest) as caught:
        check(filters=where)
    assert caught.value.field == field
    assert words in caught.value.message
    assert "\n" not in caught.value.message


def test_the_path_leads_through_nested_filters():
    with pytest.raises(InvalidRequest) as caught:
        check(filters={"and": [one("id", "=", 1), {"not": {"or": [one("id", "=", "1")]}}]})
    assert caught.value.field == "filters.and[1].not.or[0].value"


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ({"columns": ["id", "x"]}, "columns[1]"),
        ({"sort": [{"column": "x"}]}, "sort[0].column"),
        ({"sort": [{"column": "tags"}]}, "sort[0].column"),
    ],
)
def test_unknown_columns(query, field):
    with pytest.raises(InvalidRequest) as caught:
        check(**query)
    assert caught.value.field == field
