"""Reads a lake: rows of Parquet files, by the same request and with the same answer as rows of a table.

Unsorted rows come in the order of the files' paths and are read piece by piece, so that memory is bounded by the size
of a piece and not by that of a file. A sort needs memory for all rows that are asked for, but for no more than
``limit`` of them.
"""

from __future__ import annotations

import math
import threading
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import polars as pl

from outhaul.data.lake_files import LakeFile, Listing, failures
from outhaul.data.lake_plan import LakePlan, plan
from outhaul.data.lake_types import documents, printed, to_wire
from outhaul.data.prefetch import prefetch
from outhaul.data.reader import Reading
from outhaul.data.scan import BATCH_BYTES
from outhaul.domain.job import Format
from outhaul.errors import SourceError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from outhaul.data.catalog import Dataset, Lake
    from outhaul.data.scan import PlannedColumn
    from outhaul.domain.request import ExportRequest

PIECE_BYTES = 64 << 20  # of rows in memory; of a row group that is larger, each piece is fetched on its own
VALUE_BYTES = 16  # what a value takes in memory, however well it is encoded


@dataclass(slots=True)
class Piece:
    """``rows`` of the ``total`` in neighbouring files; ``skip`` stand before them. ``size`` is in bytes of memory."""

    files: list[LakeFile] = field(default_factory=list)
    skip: int = 0
    rows: int = 0
    total: int = 0
    size: int = 0


class LakeReader:
    """Reads Parquet files.

    Args:
        dataset: what to read from.
        lake: its source.
        request: which rows and columns, in which format.
        tenant: the asking tenant; None for a shared dataset.
        as_text: types of which Parquet cannot hold every value are to be text as a whole.
    """

    def __init__(
        self, dataset: Dataset, lake: Lake, request: ExportRequest, *, tenant: str | None, as_text: bool
    ) -> None:
        self._dataset = dataset
        self._lake = lake
        self._request = request
        self._tenant = tenant
        self._as_text = as_text
        self._cancelled = threading.Event()

    def cancel(self) -> None:
        """Interrupt what runs now and refuse what would follow. Another thread may call it."""
        self._cancelled.set()

    def __enter__(self) -> Reading:
        self._go_on()
        snapshot_time = datetime.now(UTC)
        query = self._request.query
        planned = plan(Listing.of(self._lake), self._dataset, query, self._tenant, as_text=self._as_text)
        expected = planned.expected
        if expected is not None and query.limit is not None:
            expected = min(expected, query.limit)
        return Reading(
            planned.columns,
            planned.notes,
            snapshot_time,
            expected,
            lambda: prefetch(self._wire(planned), stop=self.cancel),
        )

    def __exit__(self, *_: object) -> None:
        self.cancel()

    def _wire(self, planned: LakePlan) -> Iterator[pl.DataFrame]:
        with failures():
            read = self._sorted if self._request.query.sort else self._unsorted
            for frame in read(planned) if planned.files else ():
                rows = max(1, len(frame) * BATCH_BYTES // max(int(frame.estimated_size()), 1))
                for part in frame.iter_slices(rows):
                    self._go_on()
                    yield pl.DataFrame([self._column(column, part[column.name]) for column in planned.columns])
        planned.listing.check_unchanged(planned.files)

    def _column(self, column: PlannedColumn, values: pl.Series) -> pl.Series:
        if not isinstance(values.dtype, pl.List) or (
            self._request.format is Format.PARQUET and column.dtype.is_nested()
        ):
            wire = to_wire(column.name, values)
        elif self._request.format is Format.JSON:
            wire = documents(column.live, values)
        else:
            wire = printed(column.live, values)
        return wire.alias(column.wire)

    def _unsorted(self, planned: LakePlan) -> Iterator[pl.DataFrame]:
        left = self._request.query.limit
        for frame in self._pieces(planned, [column.name for column in planned.columns]):
            yield frame if left is None else frame.head(left)
            if left is not None:
                left = max(left - len(frame), 0)
                if left == 0:
                    return

    def _sorted(self, planned: LakePlan) -> Iterator[pl.DataFrame]:
        limit = self._request.query.limit
        names = [column.name for column in planned.columns]
        if limit is None:
            # A sort says nothing before it is done; rows on their way to it can be stopped.
            lazy = planned.rows(planned.scan(planned.files)).map_batches(self._watched, streamable=True)
            yield from self._order(planned, lazy).select(names).collect_batches(lazy=True)
            return
        best: list[pl.DataFrame] = []
        for frame in self._pieces(planned, [*planned.schema, *planned.keys]):
            best.append(frame)
            if sum(len(frame) for frame in best) > 2 * limit:
                best = [self._order(planned, pl.concat(best).lazy()).head(limit).collect()]
        if best:
            yield self._order(planned, pl.concat(best).lazy()).head(limit).select(names).collect()

    def _pieces(self, planned: LakePlan, names: Sequence[str]) -> Iterator[pl.DataFrame]:
        for piece in _cut(planned):
            self._go_on()
            lazy = planned.scan(piece.files)
            if piece.rows < piece.total:
                lazy = lazy.slice(piece.skip, piece.rows)
                # Polars cannot skip parts of a slice; most often a look at few columns tells that nothing is in it.
                if planned.predicate is not None and _is_empty(planned.rows(lazy.select(planned.filtered))):
                    continue
            yield planned.rows(lazy).select(names).collect(engine="streaming")

    def _order(self, planned: LakePlan, lazy: pl.LazyFrame) -> pl.LazyFrame:
        keys = self._request.query.sort
        return lazy.sort(
            [planned.compiler.ordered(key.column) for key in keys],
            descending=[key.descending for key in keys],
            nulls_last=[key.nulls == "last" for key in keys],
            maintain_order=True,
        )

    def _watched(self, frame: pl.DataFrame) -> pl.DataFrame:
        self._go_on()
        return frame

    def _go_on(self) -> None:
        if self._cancelled.is_set():
            raise SourceError("The reading of the lake was cancelled.")


def _is_empty(lazy: pl.LazyFrame) -> bool:
    return lazy.head(1).collect(engine="streaming").is_empty()


def _cut(planned: LakePlan) -> Iterator[Piece]:
    """Cut the rows of all files, in their order, into pieces of a bounded size."""
    width = VALUE_BYTES * (len(planned.schema) + len(planned.keys))
    piece = Piece()
    for file, footer in zip(planned.files, planned.footers, strict=True):
        at = 0
        for rows, size in footer.groups:
            estimate = size + rows * width
            step = math.ceil(rows / max(1, math.ceil(estimate / PIECE_BYTES)))
            for start in range(0, rows, max(step, 1)):
                take = min(step, rows - start)
                share = estimate * take // rows
                if piece.rows and piece.size + share > PIECE_BYTES:
                    yield piece
                    piece = Piece()
                if not piece.files:
                    piece.skip = at
                if file not in piece.files[-1:]:
                    piece.files.append(file)
                    piece.total += footer.rows
                piece.rows += take
                piece.size += share
                at += take
    if piece.rows:
        yield piece
