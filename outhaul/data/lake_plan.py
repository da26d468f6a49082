"""Decides how a request reads a lake: which files, which columns and which condition; reads footers, but no row."""

from __future__ import annotations

import functools
import operator
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

import polars as pl
import pyarrow as pa

from outhaul.data.lake_files import PATH
from outhaul.data.lake_query import Compiler, conjuncts, parse, series_of
from outhaul.data.lake_types import TYPES, held, holding, live_column
from outhaul.data.query import check_query
from outhaul.data.scan import PlannedColumn, compare, planned
from outhaul.errors import ContractViolation, InvalidRequest

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from outhaul.data.catalog import Dataset
    from outhaul.data.lake_files import Footer, LakeFile, Listing
    from outhaul.data.pgtypes import LiveColumn
    from outhaul.domain.request import Filter, Query


@dataclass(frozen=True, slots=True)
class _Found:
    """What some files and all folders have: columns in PostgreSQL's terms, as the compiler knows them, and as stored.

    ``lacking`` are the columns that not all of the files have, with the number of those that do not.
    """

    live: dict[str, LiveColumn]
    types: dict[str, pl.DataType]
    stored: dict[str, pl.DataType]
    footers: tuple[Footer, ...]
    lacking: dict[str, int]
    retyped: dict[str, str]

    @classmethod
    def of(cls, listing: Listing, files: Sequence[LakeFile], keys: Mapping[str, pl.Series]) -> _Found:
        footers = listing.footers(files)
        # Files that one program wrote are alike: Polars need not look at each of them.
        kinds: list[tuple[pa.Schema, pl.Schema]] = []
        lacking: Counter[str] = Counter()
        for file, footer in zip(files, footers, strict=True):
            if not any(schema.equals(footer.schema) for schema, _ in kinds):
                kinds.append((footer.schema, listing.schema(file)))
        stored: dict[str, pl.DataType] = {}
        live: dict[str, LiveColumn] = {}
        retyped: dict[str, str] = {}
        for arrow, schema in kinds:
            for name in arrow.names:
                column = live_column(name, schema[name], arrow.field(name).type)
                if (live.setdefault(name, column), stored.setdefault(name, schema[name])) != (column, schema[name]):
                    retyped[name] = (
                        f"column {name!r} is {live[name].pg} ({stored[name]}) in one file "
                        f"and {column.pg} ({schema[name]}) in another"
                    )
        for footer in footers:
            lacking.update(stored.keys() - keys.keys() - set(footer.schema.names))
        live |= _live_keys(keys)
        types = {name: held(dtype) for name, dtype in stored.items()}
        types |= {name: values.dtype for name, values in keys.items()}
        return cls(live, types, stored, tuple(footers), dict(lacking), retyped)

    def check(self, needed: set[str]) -> tuple[str, ...]:
        """Judge how files differ. Raises ContractViolation."""
        problems = [
            *(self.retyped[name] for name in sorted(needed & self.retyped.keys())),
            *(
                f"column {name!r} is {self.live[name].typname}, which cannot be exported"
                for name in sorted(needed & self.live.keys())
                if pa.types.is_null(self.live[name].arrow)
            ),
        ]
        if problems:
            raise ContractViolation(f"The lake's files cannot be read as one: {'; '.join(problems)}.")
        return tuple(
            f"column {name!r} is missing in {count} of {len(self.footers)} files and NULL there"
            for name, count in sorted(self.lacking.items())
            if name in needed
        )


@dataclass(frozen=True, slots=True)
class LakePlan:
    """How one request is read.

    Attributes:
        columns: of the result, in order.
        notes: drift that does no harm.
        listing: all files of the lake.
        files: those that may hold rows, by their folders; the others are left alone.
        footers: of ``files``.
        schema: the columns to read from the files, as Polars reads them.
        keys: the columns that folders tell, with a value for each listed file.
        places: of the listed files, by path.
        compiler: for the order of rows.
        predicate: which rows of ``files``; None for all.
        filtered: the columns that the predicate needs.
    """

    columns: tuple[PlannedColumn, ...]
    notes: tuple[str, ...]
    listing: Listing
    files: tuple[LakeFile, ...]
    footers: tuple[Footer, ...]
    schema: dict[str, pl.DataType]
    keys: dict[str, pl.Series]
    places: dict[str, int]
    compiler: Compiler
    predicate: pl.Expr | None
    filtered: frozenset[str]

    @property
    def expected(self) -> int | None:
        """How many rows there are, if nothing but folders decides about them."""
        return None if self.predicate is not None else sum(footer.rows for footer in self.footers)

    def rows(self, lazy: pl.LazyFrame) -> pl.LazyFrame:
        """Those of some rows that are asked for."""
        return lazy if self.predicate is None else lazy.filter(self.predicate)

    def scan(self, files: Sequence[LakeFile]) -> pl.LazyFrame:
        """The needed columns of some files, with the types that the compiler knows."""
        columns = [holding(name, dtype) for name, dtype in self.schema.items()]
        if self.keys:
            paths = [self.listing.address(file) for file in files]
            places = [self.places[file.path] for file in files]
            columns += [
                pl.col(PATH).replace_strict(paths, values.gather(places), return_dtype=values.dtype).alias(name)
                for name, values in self.keys.items()
            ]
        return self.listing.scan(files, self.schema).select(columns)


def plan(listing: Listing, dataset: Dataset, query: Query, tenant: str | None, *, as_text: bool) -> LakePlan:
    """Compare the files with the contract and decide how each column travels.

    Raises:
        ContractViolation: a promised column is gone or has another type, in any file that is needed.
        InvalidRequest: the query does not fit the columns; only possible when there is no contract.
        SourceError: the files cannot be read now.
    """
    if dataset.tenant is not None and tenant is None:
        raise InvalidRequest("tenant", f"dataset {dataset.name} needs one")
    dtypes: dict[str, pl.DataType] = {column.name: column.dtype for column in dataset.columns}
    keys = _keys(listing, dtypes)
    if not dtypes:
        dtypes = {name: column.dtype for name, column in _Found.of(listing, listing.files[:1], keys).live.items()}
    check_query(dtypes, query)
    chosen = query.columns or list(dtypes)
    needed = {*chosen, *query.filter_columns(), *(key.column for key in query.sort)}
    if dataset.tenant is not None:
        needed.add(dataset.tenant)

    conditions: list[tuple[Filter | str, set[str]]] = [*conjuncts(query.filters)]
    if dataset.tenant is not None and tenant is not None:
        conditions.append((tenant, {dataset.tenant}))

    def compiled(compiler: Compiler, condition: Filter | str, names: set[str]) -> pl.Expr:
        if isinstance(condition, str):
            return compiler.equals_tenant(next(iter(names)), condition)
        return compiler.condition(condition)

    compiler = Compiler(_live_keys(keys), {name: values.dtype for name, values in keys.items()}, dtypes)
    told = [compiled(compiler, node, names) for node, names in conditions if names <= keys.keys()]
    files = listing.files
    if told:
        kept = pl.DataFrame(keys).with_row_index(PATH).filter(told)[PATH]
        files = tuple(files[at] for at in kept)

    found = _Found.of(listing, files or listing.files[:1], keys)
    notes = found.check(needed)
    notes = (*compare(dataset, found.live, needed), *notes)
    compiler = Compiler(found.live, found.types, dtypes)
    rest = [(node, names) for node, names in conditions if not names <= keys.keys()]
    where = [compiled(compiler, node, names) for node, names in rest]
    return LakePlan(
        columns=tuple(
            planned(i, found.live[name], dtypes[name], dataset.rules.columns.get(name), as_text=as_text)
            for i, name in enumerate(chosen)
        ),
        notes=notes,
        listing=listing,
        files=files,
        footers=found.footers[: len(files)],
        schema={name: dtype for name, dtype in found.stored.items() if name in needed - keys.keys()},
        keys={name: values for name, values in keys.items() if name in needed},
        places={file.path: at for at, file in enumerate(listing.files)},
        compiler=compiler,
        predicate=functools.reduce(operator.and_, where) if where else None,
        filtered=frozenset().union(*(names for _, names in rest)),
    )


def _keys(listing: Listing, promised: Mapping[str, pl.DataType]) -> dict[str, pl.Series]:
    """The columns that folders tell, with the value of each file. Raises ContractViolation."""
    keys = {}
    for name in listing.files[0].keys:
        dtype = promised.get(name, pl.String())
        if not isinstance(dtype, (*TYPES, pl.Datetime)):
            dtype = pl.String()
        texts = [file.keys[name] for file in listing.files]
        try:
            found = {text: None if text is None else parse(text, dtype) for text in set(texts)}
        except (ValueError, ArithmeticError) as error:
            raise ContractViolation(
                f"Column {name!r} is told by folders, and not every name is a value of type {dtype}.", detail=str(error)
            ) from None
        keys[name] = series_of([found[text] for text in texts], dtype).alias(name)
    return keys


def _live_keys(keys: Mapping[str, pl.Series]) -> dict[str, LiveColumn]:
    return {name: live_column(name, values.dtype) for name, values in keys.items()}
