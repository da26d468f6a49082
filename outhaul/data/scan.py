"""Reads a dataset: plans the columns against the live source, and streams them as Polars frames."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import polars as pl
import pyarrow as pa
from polars.io.plugins import register_io_source

from outhaul.data import query as sql
from outhaul.data.pgtypes import LiveColumn, projection
from outhaul.data.prefetch import prefetch
from outhaul.data.session import Limits, Session
from outhaul.data.typed import Tally, typed_frame
from outhaul.domain.job import Format
from outhaul.errors import ContractViolation, InvalidRequest, SourceError

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    from outhaul.data.catalog import Dataset
    from outhaul.data.contract import Column
    from outhaul.domain.request import Query

BATCH_BYTES = 8 << 20  # larger ones cost memory and are no faster


@dataclass(frozen=True, slots=True)
class PlannedColumn:
    """One column of the result.

    Attributes:
        wire: its name on the wire; names of the user's choosing might clash.
        aside: the wire name of its values that the type cannot hold, as text, if the database sorts them out.
        dtype: the promised type, or the live one where nothing was promised.
    """

    name: str
    wire: str
    aside: str | None
    live: LiveColumn
    dtype: pl.DataType
    nullable: bool
    description: str


@dataclass(frozen=True, slots=True)
class Plan:
    """How one request is read; ``notes`` tell of drift that does no harm."""

    columns: tuple[PlannedColumn, ...]
    compiled: sql.Compiled
    notes: tuple[str, ...]


def plan(
    session: Session, dataset: Dataset, query: Query, format_: Format, tenant: str | None, *, as_text: bool = False
) -> Plan:
    """Compare the live source with the contract and decide how each column travels; reads no row.

    Args:
        session: an open session on the source.
        dataset: what to read from.
        query: which rows and columns.
        format_: where the values go.
        tenant: the asking tenant, or None for a shared dataset.
        as_text: types of which Parquet cannot hold every value are to be text as a whole.

    Raises:
        ContractViolation: a promised column is gone or has another type.
        InvalidRequest: the query does not fit the columns; only possible when there is no contract.
        SourceError: the source cannot say what it has.
    """
    live = _live(session, dataset)
    dtypes = {c.name: c.dtype for c in dataset.columns} or {c.name: c.dtype for c in live.values()}
    sql.check_query(dtypes, query)
    chosen = query.columns or list(dtypes)
    needed = {*chosen, *query.filter_columns(), *(key.column for key in query.sort)}
    notes = compare(dataset, live, needed)
    columns, projections = [], []
    for i, name in enumerate(chosen):
        column = planned(i, live[name], dtypes[name], dataset.rules.columns.get(name), as_text=as_text)
        main, aside = projection(
            column.live, format_, sql.quote_name(name), as_list=format_ is Format.PARQUET and column.dtype.is_nested()
        )
        projections.append(f"{main} AS {column.wire}")
        if aside:
            column = replace(column, aside=f"x{i}")
            projections.append(f"{aside} AS x{i}")
        columns.append(column)
    return Plan(tuple(columns), sql.compile_read(dataset, query, live, dtypes, projections, tenant=tenant), notes)


def planned(at: int, live: LiveColumn, dtype: pl.DataType, promised: Column | None, *, as_text: bool) -> PlannedColumn:
    """The column that stands at place ``at`` of the result, with nothing set aside.

    Args:
        at: its place.
        live: what the source has.
        dtype: what it is to be.
        promised: what the contract says of it.
        as_text: types of which Parquet cannot hold every value are to be text as a whole.
    """
    if as_text and (live.type.partial or dtype.is_nested()):
        dtype = pl.String()
    nullable, description = (promised.nullable, promised.description) if promised else (True, "")
    return PlannedColumn(live.name, f"c{at}", None, live, dtype, nullable=nullable, description=description)


def prepare(session: Session, plan: Plan) -> int | None:
    """Make the session ready for ``frames``; returns about how many rows there will be. Raises SourceError."""
    session.set(plan.compiled.settings)
    return session.prepare(plan.compiled.sql)


def frames(session: Session, plan: Plan, *, batch_bytes: int = BATCH_BYTES) -> Generator[pl.DataFrame]:
    """Stream the rows in wire form: one frame a batch, decoded ahead while the caller works. Raises SourceError."""
    return prefetch(
        (_wire(batch) for batch in session.read(plan.compiled.sql, batch_bytes=batch_bytes)), stop=session.cancel
    )


def scan_postgres(
    url: str,
    dataset: Dataset,
    query: Query,
    *,
    tenant: str | None = None,
    name: str = "outhaul:scan",
    limits: Limits | None = None,
) -> pl.LazyFrame:
    """A dataset as a Polars lazy source: columns and row limits that Polars pushes down become SQL.

    Nothing is read before the frame is collected or sunk, except that the source is asked for its columns. Values the
    types cannot hold raise UnrepresentableValue; it and SourceError reach the caller inside Polars' ComputeError.
    """
    limits = limits or Limits()
    with Session(url, name=name, limits=limits) as session:
        schema = {column.name: column.dtype for column in plan(session, dataset, query, Format.PARQUET, tenant).columns}

    def source(
        with_columns: list[str] | None, predicate: pl.Expr | None, n_rows: int | None, _batch_size: int | None
    ) -> Iterator[pl.DataFrame]:
        pushed: dict[str, Any] = {"columns": with_columns or list(schema)}
        if n_rows is not None and predicate is None:
            pushed["limit"] = min(n_rows, query.limit) if query.limit is not None else n_rows
        left = n_rows
        with Session(url, name=name, limits=limits) as session:
            pushed_plan = plan(session, dataset, query.model_copy(update=pushed), Format.PARQUET, tenant)
            prepare(session, pushed_plan)
            tally = Tally("fail")
            with closing(frames(session, pushed_plan)) as read:
                for frame in read:
                    typed = typed_frame(pushed_plan.columns, frame, tally)
                    if predicate is not None:
                        typed = typed.filter(predicate)
                    if left is not None:
                        typed = typed.head(left)
                        left -= len(typed)
                    yield typed
                    if left == 0:
                        return

    return register_io_source(source, schema=schema, validate_schema=True)


def _live(session: Session, dataset: Dataset) -> dict[str, LiveColumn]:
    found = [LiveColumn.of(each) for each in session.describe(sql.compile_source(dataset.source))]
    live = {column.name: column for column in found}
    if not found:
        raise InvalidRequest(f"dataset {dataset.name}", "its source has no columns")
    if len(live) < len(found):
        names = [column.name for column in found]
        twice = next(name for name in names if names.count(name) > 1)
        raise InvalidRequest(f"dataset {dataset.name}", f"two columns of its SQL are named {twice!r}")
    return live


def compare(dataset: Dataset, live: dict[str, LiveColumn], needed: set[str]) -> tuple[str, ...]:
    """Judge drift: a needed column that is gone or retyped is an error, anything else is worth a note.

    Raises:
        ContractViolation: naming every such column.
    """
    promised = dataset.rules.columns
    problems: list[str] = []
    notes: list[str] = []
    if dataset.tenant is not None and dataset.tenant not in live:
        problems.append(f"the tenant column {dataset.tenant!r} is missing")
    for name, column in promised.items():
        trouble = None
        if name not in live:
            trouble = f"column {name!r} is missing"
        elif not live[name].fits(column.dtype):
            trouble = f"column {name!r} is {live[name].pg}, which does not fit the promised {column.dtype}"
        if trouble:
            (problems if name in needed else notes).append(trouble)
    if promised:
        notes += [f"column {name!r} is new and not in the contract" for name in live if name not in promised]
    if problems:
        raise ContractViolation(f"The source of {dataset.name} no longer keeps the contract: {'; '.join(problems)}.")
    return tuple(note for note in notes if note != f"column {dataset.tenant!r} is new and not in the contract")


def _wire(batch: pa.RecordBatch) -> pl.DataFrame:
    frame = pl.from_arrow(
        pa.RecordBatch.from_arrays(
            [column.cast(_plain(column.type)) for column in batch.columns], names=batch.schema.names
        )
    )
    if not isinstance(frame, pl.DataFrame):
        raise SourceError("The source database sent no columns.")
    return frame


def _plain(kind: Any) -> Any:
    """What Polars can hold: extension types become their storage, points in time their bare counts."""
    if isinstance(kind, pa.BaseExtensionType):
        return kind.storage_type
    if pa.types.is_date32(kind):
        return pa.int32()
    if pa.types.is_timestamp(kind) or pa.types.is_time64(kind):
        return pa.int64()
    return pa.list_(_plain(kind.value_type)) if pa.types.is_list(kind) else kind
