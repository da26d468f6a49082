"""Opens the source of a request: whatever it is, rows arrive as frames in wire form."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from outhaul.data import scan
from outhaul.data.readers import Attempt, end_earlier
from outhaul.data.session import Limits, Session

if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from datetime import datetime

    import polars as pl

    from outhaul.data.catalog import Dataset
    from outhaul.data.scan import PlannedColumn
    from outhaul.domain.request import ExportRequest


@dataclass(frozen=True, slots=True)
class Reading:
    """A request whose columns are known and whose rows wait to be read.

    Attributes:
        columns: of the result, in order.
        notes: drift between source and contract that does no harm.
        snapshot_time: whatever was committed before it is read.
        expected: about how many rows there will be, if that is known.
        frames: starts the reading; may be called once. Raises SourceError.
    """

    columns: tuple[PlannedColumn, ...]
    notes: tuple[str, ...]
    snapshot_time: datetime
    expected: int | None
    frames: Callable[[], Generator[pl.DataFrame]]


class Reader(AbstractContextManager[Reading], Protocol):
    """A source that is open for the length of a ``with`` block."""

    def cancel(self) -> None:
        """Interrupt what runs now and refuse what would follow. Another thread may call it."""


class PostgresReader:
    """Reads a table or a SELECT over one connection of its own.

    Args:
        url: libpq URI of the source database.
        dataset: what to read from.
        request: which rows and columns, in which format.
        tenant: the asking tenant; None for a shared dataset.
        as_text: types of which Parquet cannot hold every value are to be text as a whole.
        attempt: names the session; what earlier attempts have left open is ended.
        limits: how long the source may be kept busy.
    """

    def __init__(
        self,
        url: str,
        dataset: Dataset,
        request: ExportRequest,
        *,
        tenant: str | None,
        as_text: bool,
        attempt: Attempt,
        limits: Limits,
    ) -> None:
        self._dataset = dataset
        self._request = request
        self._tenant = tenant
        self._as_text = as_text
        self._attempt = attempt
        self._session = Session(url, name=attempt.session_name, limits=limits)

    def cancel(self) -> None:
        """Interrupt what runs now and refuse what would follow. Another thread may call it."""
        self._session.cancel()

    def __enter__(self) -> Reading:
        session = self._session.__enter__()
        try:
            end_earlier(session, self._attempt)
            snapshot_time = session.now()
            plan = scan.plan(
                session,
                self._dataset,
                self._request.query,
                self._request.format,
                self._tenant,
                as_text=self._as_text,
            )
            expected = scan.prepare(session, plan)
        except BaseException:
            session.close()
            raise
        return Reading(plan.columns, plan.notes, snapshot_time, expected, lambda: scan.frames(session, plan))

    def __exit__(self, *_: object) -> None:
        self._session.close()
