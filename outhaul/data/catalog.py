"""What can be exported: datasets that operators declare in Python, and the module that holds them."""

from __future__ import annotations

import importlib
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING

from outhaul.data.contract import Column, Contract
from outhaul.data.sqltext import one_select
from outhaul.domain.job import DEFAULT_SOURCE
from outhaul.errors import InvalidRequest, Unavailable, unknown

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pandera.polars import DataFrameModel


@dataclass(frozen=True, slots=True)
class Table:
    """A table or view: ``schema.name``, or ``name`` alone to have the search path find it.

    ``database`` is the source it is in: "default" is that of OUTHAUL_SOURCE_URL, others are named in OUTHAUL_SOURCES.
    """

    name: str
    database: str = DEFAULT_SOURCE


@dataclass(frozen=True, slots=True)
class Select:
    """Rows of one SELECT, written by an operator. Percent signs, colons and question marks are plain text in it.

    ``database`` as for a table.
    """

    sql: str
    database: str = DEFAULT_SOURCE


@dataclass(frozen=True, slots=True)
class Lake:
    """Rows of Parquet files.

    Attributes:
        path: one file, a folder with all ``*.parquet`` below it, or a pattern such as ``/lake/orders/**/*.parquet``; of
            this machine, or ``s3://bucket/...``. Nothing is looked for before a request needs it.
        hive: folders named ``year=2026`` below the path are columns: text, unless the contract says otherwise.
    """

    path: str
    hive: bool = True

    def __post_init__(self) -> None:
        scheme, separator, rest = self.path.rpartition("://")
        if not rest.strip("/") or "\x00" in rest:
            raise InvalidRequest("lake", f"{self.path!r} names no file or folder")
        if separator and scheme != "s3":
            raise InvalidRequest("lake", f"{self.path!r}: only s3:// and paths of this machine can be read")
        if separator and any(char in "*?[" for char in rest.partition("/")[0]):
            raise InvalidRequest("lake", f"{self.path!r}: the bucket's name cannot be a pattern")
        if any("**" in part and part != "**" for part in rest.split("/")):
            raise InvalidRequest("lake", f"{self.path!r}: ** stands for whole folders, as in orders/**/*.parquet")


@dataclass(frozen=True, slots=True)
class Dataset:
    """Rows that may be asked for.

    Attributes:
        name: how requests name it; also the stem of its file names.
        source: where the rows come from.
        contract: names, types, nullability, checks and descriptions of the columns. None takes the live columns as
            they are; only an operator's own SQL does so.
        tenant: the column whose value must be the asking tenant; the predicate is added here, never by a request.
        shared: every tenant may read every row. Exactly one of ``tenant`` and ``shared`` is given.
        statement_timeout: longest run of its query; None for OUTHAUL_STATEMENT_TIMEOUT_SECONDS.
        rules: the contract as the data path uses it.
    """

    name: str
    source: Table | Select | Lake
    contract: type[DataFrameModel] | None
    tenant: str | None = None
    shared: bool = False
    description: str = ""
    statement_timeout: timedelta | None = None
    rules: Contract = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        where = f"dataset {self.name}"
        if not self.name or self.name[0] == "." or not all(char.isalnum() or char in "_-." for char in self.name):
            raise InvalidRequest("dataset", f"{self.name!r} is not a name: letters, digits, '_', '-' and '.' only")
        if self.shared == (self.tenant is not None):
            raise InvalidRequest(where, "name the tenant column, or say shared=True if every tenant may read every row")
        if self.statement_timeout is not None and self.statement_timeout <= timedelta(0):
            raise InvalidRequest(where, "statement_timeout must be longer than nothing")
        if isinstance(self.source, Select):
            try:
                one_select(self.source.sql)
            except ValueError as error:
                raise InvalidRequest(where, f"the SQL {error}") from None
        object.__setattr__(self, "rules", Contract.of(self.contract, owner=where))

    @property
    def database(self) -> str | None:
        """The source database it is read from; None for a lake."""
        return None if isinstance(self.source, Lake) else self.source.database

    @property
    def columns(self) -> tuple[Column, ...]:
        """The contract's columns, in its order; empty without a contract."""
        return tuple(self.rules.columns.values())


class Catalog:
    """The datasets of an installation, by name."""

    def __init__(self, *datasets: Dataset) -> None:
        self._datasets: dict[str, Dataset] = {}
        for dataset in datasets:
            if dataset.name in self._datasets:
                raise InvalidRequest("catalog", f"two datasets are named {dataset.name!r}")
            self._datasets[dataset.name] = dataset

    def __iter__(self) -> Iterator[Dataset]:
        return iter(self._datasets.values())

    def __len__(self) -> int:
        return len(self._datasets)

    def get(self, name: str) -> Dataset:
        """The dataset of that name. Raises InvalidRequest with the closest match."""
        if name not in self._datasets:
            raise InvalidRequest("dataset", unknown("dataset", name, self._datasets))
        return self._datasets[name]


def load_catalog(module: str) -> Catalog:
    """Import ``module`` and return its ``catalog``. Raises Unavailable with one plain line that says what is wrong."""
    try:
        loaded = importlib.import_module(module)
    except ModuleNotFoundError as error:
        absent = error.name is not None and f"{module}.".startswith(f"{error.name}.")
        raise Unavailable(
            f"The catalog module {module!r} {'cannot be found' if absent else f'needs {error.name!r}'}."
        ) from None
    except InvalidRequest as error:
        raise Unavailable(f"The catalog module {module!r} is not valid: {error.message}") from error
    except Exception as error:
        first_line = str(error).partition("\n")[0]
        raise Unavailable(
            f"The catalog module {module!r} fails when imported: {type(error).__name__}: {first_line}"
        ) from error
    catalog = getattr(loaded, "catalog", None)
    if not isinstance(catalog, Catalog):
        raise Unavailable(f"The catalog module {module!r} has no variable 'catalog' of type Catalog.")
    return catalog


def ad_hoc(sql: str, database: str = DEFAULT_SOURCE) -> Dataset:
    """A dataset for one operator's SELECT, without contract and open to all. Raises InvalidRequest."""
    return Dataset("query", Select(sql, database), contract=None, shared=True)
