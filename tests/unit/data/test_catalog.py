from __future__ import annotations

import sys
from typing import Annotated

import polars as pl
import pytest
from pandera.polars import DataFrameModel, Field, dataframe_check

from outhaul.data.catalog import Catalog, Dataset, Select, Table, ad_hoc, load_catalog
from outhaul.errors import InvalidRequest, Unavailable


class Model(DataFrameModel):
    id: int = Field(ge=1, description="Key")
    at: Annotated[pl.Datetime, "us", "UTC"] = Field(nullable=True)


def test_columns_come_from_the_model():
    dataset = Dataset("d", Table("t"), Model, shared=True)
    first, second = dataset.columns
    assert (first.name, first.dtype, first.nullable, first.description) == ("id", pl.Int64(), False, "Key")
    assert first.checks == ("greater_than_or_equal_to(1)",)
    assert (second.dtype, second.nullable) == (pl.Datetime("us", "UTC"), True)


def test_tenant_or_shared_must_be_said():
    with pytest.raises(InvalidRequest, match="shared=True"):
        Dataset("d", Table("t"), Model)
    with pytest.raises(InvalidRequest, match="shared=True"):
        Dataset("d", Table("t"), Model, tenant="id", shared=True)


def test_catalog_suggests_the_closest_name():
    catalog = Catalog(Dataset("flights", Table("f"), Model, shared=True))
    assert catalog.get("flights").name == "flights"
    with pytest.raises(InvalidRequest, match=r"dataset: 'fligths' is not a known dataset. Did you mean 'flights'"):
        catalog.get("fligths")
    with pytest.raises(InvalidRequest, match="two datasets"):
        Catalog(*catalog, *catalog)


@pytest.mark.parametrize("name", ["", "a/b", "..", ".x", "a b", 'a"b', "a\n"])
def test_names_that_are_no_file_names(name):
    with pytest.raises(InvalidRequest):
        Dataset(name, Table("t"), Model, shared=True)


class Unique(DataFrameModel):
    id: int = Field(unique=True)


class Whole(DataFrameModel):
    id: int

    @dataframe_check
    def ascending(cls, data):  # noqa: N805 - Pandera's convention
        return data.lazyframe.select(pl.col("id").is_sorted())


class Category(DataFrameModel):
    id: Annotated[pl.Enum, ("a", "b")]


class Unfinished(DataFrameModel):
    id: pl.List


@pytest.mark.parametrize("model", [Unique, Whole, Category, Unfinished])
def test_promises_that_cannot_be_kept(model):
    with pytest.raises(InvalidRequest, match="dataset d"):
        Dataset("d", Table("t"), model, shared=True)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT 1; COMMIT; CREATE TABLE x (i int)", "/* SELECT */ DELETE FROM t", "", ";", "SELECT 1) AS a, (SELECT 2",
        "SELECT (1", "EXPLAIN ANALYZE DELETE FROM t", "COPY t TO PROGRAM 'id'", "SELECT 1; /* a */ SELECT 2",
        "SELECT $a$;$a$; DROP TABLE t", "SELECT E'\\';'; DROP TABLE t; --'", "SELECT 'a\x00'",
    ],
)  # fmt: skip
def test_case_50_one_select_only(sql):
    with pytest.raises(InvalidRequest, match="the SQL"):
        ad_hoc(sql)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT ';'", "SELECT 1;", "SELECT 1; -- done; really", "SELECT 1 /* ; /* nested ; */ */ ;\n", "(SELECT 1)",
        "WITH a AS (SELECT 1) SELECT * FROM a", "VALUES (1)", "TABLE t", 'SELECT 1 AS ";"', "SELECT $$;$$, $a$;)$a$",
        "SELECT E'\\';'", "SELECT ''';'", "-- first\nSELECT 1", "SELECT a$1$ FROM t", "select ')'",
    ],
)  # fmt: skip
def test_selects(sql):
    assert isinstance(ad_hoc(sql).source, Select)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (None, "cannot be found"),
        ("import no_such_thing", "needs 'no_such_thing'"),
        ("1 / 0", "fails when imported: ZeroDivisionError"),
        ("x = 1", "has no variable 'catalog'"),
        ("catalog = 5", "has no variable 'catalog'"),
        (
            "from outhaul.data.catalog import *\ncatalog = Catalog(ad_hoc('DROP TABLE x'))",
            "is not valid: dataset query",
        ),
        ("def (", "SyntaxError"),
    ],
)
def test_broken_catalog_modules(tmp_path, monkeypatch, text, words):
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "my_catalog", raising=False)
    if text is not None:
        (tmp_path / "my_catalog.py").write_text(text)
    with pytest.raises(Unavailable, match=words) as caught:
        load_catalog("my_catalog")
    assert "\n" not in caught.value.message


def test_a_catalog_is_loaded(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "fine_catalog.py").write_text(
        "from outhaul.data.catalog import Catalog, ad_hoc\ncatalog = Catalog(ad_hoc('SELECT 1 AS a'))"
    )
    assert [dataset.name for dataset in load_catalog("fine_catalog")] == ["query"]
