from __future__ import annotations

import pytest

from outhaul.data.catalog import load_catalog
from outhaul.data.introspect import declare
from outhaul.errors import SourceError, Unavailable

TABLE = """CREATE TABLE public.orders (id bigint PRIMARY KEY, {tenant} text NOT NULL, amount numeric(9,2),
at timestamptz, wall timestamp, tags int[], doc jsonb, "odd name" date, "class" bool, _x uuid,
schema time, n numeric, ip inet)"""


def load(export, tmp_path, monkeypatch, name):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / f"{name}.py").write_text(declare(export.url, "public.orders"))
    return load_catalog(name)


@pytest.mark.parametrize("format_", ["csv", "json", "parquet"])
def test_a_declared_table_can_be_exported(export, tmp_path, monkeypatch, format_):
    export.sql(
        TABLE.format(tenant="tenant_id"),
        "COMMENT ON COLUMN orders.amount IS 'In \"euros\"'",
        "INSERT INTO orders (id, tenant_id, amount) VALUES (1, 'a', 1.5), (2, 'b', 2)",
    )
    dataset = load(export, tmp_path, monkeypatch, f"declared_{format_}").get("orders")
    assert dataset.tenant == "tenant_id"
    described = {column.name: (column.nullable, column.description) for column in dataset.columns}
    assert described["id"] == (False, "")
    assert described["amount"] == (True, 'In "euros"')
    assert list(described)[7:11] == ["odd name", "class", "_x", "schema"]
    result = export(dataset, format_, tenant="a")
    assert result.produced.rows == 1
    assert result.produced.notes == ()


def test_without_a_tenant_column_a_person_must_decide(export, tmp_path, monkeypatch):
    export.sql(TABLE.format(tenant="shop"))
    with pytest.raises(Unavailable, match="shared=True"):
        load(export, tmp_path, monkeypatch, "undecided")


def test_no_such_table(export):
    with pytest.raises(SourceError, match="42P01"):
        declare(export.url, "nowhere")
