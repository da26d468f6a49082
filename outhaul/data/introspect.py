"""Writes the declaration of a dataset from a table that exists."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import polars as pl

from outhaul.data.catalog import Table
from outhaul.data.pgtypes import LiveColumn
from outhaul.data.query import compile_source
from outhaul.data.session import Limits, Session
from outhaul.domain.job import DEFAULT_SOURCE

if TYPE_CHECKING:
    from typing import Any

TENANT_NAMES = ("tenant_id", "tenant", "account_id", "customer_id", "org_id", "organization_id")
ABOUT = """
SELECT pg_catalog.json_object_agg(attname, pg_catalog.json_build_object(
    'filled', attnotnull, 'comment', pg_catalog.col_description(attrelid, attnum)))
FROM pg_catalog.pg_attribute
WHERE attrelid = pg_catalog.to_regclass(pg_catalog.current_setting('outhaul.table')) AND attnum > 0 AND NOT attisdropped
"""


def declare(url: str, table: str, database: str = DEFAULT_SOURCE) -> str:
    """A Python module that declares ``table`` as a dataset, ready but for the choice of its tenant column.

    A column whose name says that it is the tenant's is taken for it. Where there is none, the declaration is refused
    until somebody has named one or said ``shared=True``.

    Raises:
        SourceError: the table cannot be described.
    """
    with Session(url, name="outhaul:introspect", limits=Limits()) as session:
        columns = [LiveColumn.of(field) for field in session.describe(compile_source(Table(table)))]
        session.set({"outhaul.table": ".".join('"' + part.replace('"', '""') + '"' for part in table.split("."))})
        about: dict[str, dict[str, Any]] = json.loads(session.value(ABOUT) or "{}")
    name = table.rpartition(".")[2]
    elsewhere = "" if database == DEFAULT_SOURCE else f", database={json.dumps(database)}"
    tenant = next((column.name for column in columns if column.name in TENANT_NAMES), None)
    lines = [
        f'"""The dataset {name}."""',
        "",
        "from typing import Annotated",
        "",
        "import polars as pl",
        "from pandera.polars import DataFrameModel, Field",
        "",
        "from outhaul.data.catalog import Catalog, Dataset, Table",
        "",
        "",
        f"class {_class_name(name)}(DataFrameModel):",
        f'    """Rows of {table}."""',
        "",
        *(_column(column, i, about.get(column.name, {})) for i, column in enumerate(columns)),
        "",
        "",
        "catalog = Catalog(",
        "    Dataset(",
        f"        {json.dumps(name, ensure_ascii=False)},",
        f"        source=Table({json.dumps(table, ensure_ascii=False)}{elsewhere}),",
        f"        contract={_class_name(name)},",
        f"        tenant={json.dumps(tenant)},"
        if tenant
        else '        # Say which: tenant="the column that tells tenants apart", or shared=True',
        "    ),",
        ")",
        "",
    ]
    return "\n".join(lines)


def _column(column: LiveColumn, at: int, about: dict[str, Any]) -> str:
    arguments = []
    attribute = column.name
    # Pandera takes a leading underscore for its own, and only identifiers can be attributes.
    if not attribute.isidentifier() or attribute.startswith("_") or attribute in _taken():
        attribute = f"column_{at + 1}"
        arguments.append(f"alias={json.dumps(column.name, ensure_ascii=False)}")
    if not about.get("filled"):
        arguments.append("nullable=True")
    if comment := about.get("comment"):
        arguments.append(f"description={json.dumps(comment, ensure_ascii=False)}")
    field = f" = Field({', '.join(arguments)})" if arguments else ""
    return f"    {attribute}: {_annotation(column.dtype)}{field}  # {column.pg}"


def _annotation(dtype: pl.DataType) -> str:
    match dtype:
        case pl.Datetime():
            return f'Annotated[pl.Datetime, "us", {json.dumps(dtype.time_zone) if dtype.time_zone else None}]'
        case pl.Decimal():
            return f"Annotated[pl.Decimal, {dtype.precision}, {dtype.scale}]"
        case pl.List():
            return f"Annotated[pl.List, pl.{dtype.inner}]"
        case _:
            return f"pl.{dtype}"


def _class_name(name: str) -> str:
    words = "".join(char if char.isalnum() else " " for char in name).title().replace(" ", "")
    return words if words.isidentifier() else f"Table{words}"


def _taken() -> frozenset[str]:
    import keyword

    from pandera.polars import DataFrameModel

    return frozenset([*keyword.kwlist, *dir(DataFrameModel), "Field", "pl", "Annotated"])
