"""What people and panels ask about jobs; nothing here changes a row."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING
from uuid import UUID

from outhaul.domain.job import Job, JobEvent, Status, StoredFile
from outhaul.domain.waiting import Facts, explain
from outhaul.errors import NotFound
from outhaul.store.database import autocommit, query
from outhaul.store.jobs import read_job
from outhaul.store.line import LineStore

if TYPE_CHECKING:
    from datetime import datetime

    from sqlalchemy import Engine

    from outhaul.domain.job import Format
    from outhaul.domain.waiting import Wait

MIN_ID_DIGITS = 4


class Insights:
    """Reads for the fronts. All methods raise Unavailable when the database does not answer.

    Args:
        engine: the control pool.
        max_active: how many jobs may be under way in all, as given to the JobStore.
        max_per_source: how many of them may read the same source.
        line_fresh_for: how old what is told of the line may be.
    """

    def __init__(
        self, engine: Engine, *, max_active: int, max_per_source: int, line_fresh_for: timedelta = timedelta()
    ) -> None:
        self.engine = engine
        self._line = LineStore(engine, line_fresh_for)
        self._max_active = max_active
        self._max_per_source = max_per_source

    def find(self, text: str) -> UUID:
        """The id that ``text`` is, or is the beginning of. Raises NotFound, also when several begin like that."""
        digits = text.replace("-", "").lower()
        if not MIN_ID_DIGITS <= len(digits) <= 32 or set(digits) - set("0123456789abcdef"):
            raise NotFound(f"{text!r} is not a job id, nor its first {MIN_ID_DIGITS} or more digits")
        if len(digits) == 32:
            return UUID(digits)
        with autocommit(self.engine) as connection:
            ids = connection.execute(query("job_find"), {"digits": digits}).scalars().all()
        if len(ids) != 1:
            raise NotFound(
                f"there is no job {text}" if not ids else f"several jobs begin with {text}: give more digits"
            )
        found: UUID = ids[0]
        return found

    def recent(self, tenant_id: UUID | None, status: Status | None, count: int) -> list[Job]:
        """The newest jobs, at most ``count``, of one tenant or all."""
        name = "job_list" if tenant_id else "job_list_all"
        params = {"tenant_id": tenant_id, "status": status and str(status), "count": count}
        with autocommit(self.engine) as connection:
            return [read_job(row) for row in connection.execute(query(name), params).mappings()]

    def page(
        self,
        tenant_id: UUID | None,
        *,
        status: Status | None = None,
        dataset: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        after: tuple[datetime, UUID] | None = None,
        count: int,
    ) -> list[Job]:
        """Jobs of one tenant or all, newest first; ``after`` is the last job of the page before.

        ``since`` is inclusive, ``until`` is not.
        """
        after_at, after_id = after or (None, None)
        params = {
            "tenant_id": tenant_id,
            "status": status and str(status),
            "dataset": dataset,
            "since": since,
            "until": until,
            "after_at": after_at,
            "after_id": after_id,
            "count": count,
        }
        with autocommit(self.engine) as connection:
            return [read_job(row) for row in connection.execute(query("job_page"), params).mappings()]

    def usual(self, dataset: str, format_: Format) -> tuple[float | None, float | None]:
        """Bytes and seconds of a row in the newest exports of a dataset in a format; None when there are none."""
        with autocommit(self.engine) as connection:
            row = connection.execute(query("dataset_usual"), {"dataset": dataset, "format": str(format_)}).one()
        return row.row_bytes, row.row_seconds

    def load(self, tenant_id: UUID, bound: int = 100_000) -> tuple[int, int]:
        """How many jobs of a tenant are under way, and how many wait, counted up to ``bound``."""
        with autocommit(self.engine) as connection:
            row = connection.execute(query("tenant_load"), {"tenant_id": tenant_id, "bound": bound}).one()
        return row.under_way, row.waiting

    def files(self, job_id: UUID) -> list[StoredFile]:
        """The published files of a completed job, in order."""
        with autocommit(self.engine) as connection:
            rows = connection.execute(query("file_list"), {"id": job_id}).mappings()
            return [StoredFile(**row) for row in rows]

    def events(self, job_id: UUID) -> list[JobEvent]:
        """The job's history, oldest first."""
        with autocommit(self.engine) as connection:
            rows = connection.execute(query("event_list"), {"id": job_id}).mappings()
            return [
                JobEvent(
                    **{
                        **row,
                        "from_status": row["from_status"] and Status(row["from_status"]),
                        "to_status": Status(row["to_status"]),
                    }
                )
                for row in rows
            ]

    def wait(self, job: Job) -> Wait | None:
        """Why the job is not running yet; None for one that is, or has ended."""
        with autocommit(self.engine) as connection:
            row = connection.execute(query("job_place"), {"id": job.id}).one_or_none()
        if row is None:
            return None
        line = self._line.look()
        return explain(
            job,
            Facts(
                is_due=row.is_due,
                export_enabled=row.export_enabled,
                max_concurrent_jobs=row.max_concurrent_jobs,
                of_tenant=line.of_tenant[job.tenant_id],
                of_source=line.of_source[job.source],
                all_jobs=line.of_tenant.total(),
                ahead=line.ahead(job, row.own_ahead),
                usual=line.usual,
                pauses=line.pauses_of(job),
                max_active=self._max_active,
                max_per_source=self._max_per_source,
            ),
        )

    def counts(self) -> dict[Status, tuple[int, datetime]]:
        """How many jobs stand where, since when the oldest; what has ended counts for 24 hours after it was made."""
        with autocommit(self.engine) as connection:
            rows = connection.execute(query("job_counts")).all()
        return {Status(row.status): (row.jobs, row.oldest) for row in rows}
