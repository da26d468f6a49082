"""What people and panels ask about jobs; nothing here changes a row."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import UUID

from outhaul.domain.job import Job, JobEvent, Status, StoredFile
from outhaul.errors import NotFound
from outhaul.store.database import query, transaction
from outhaul.store.jobs import read_job

if TYPE_CHECKING:
    from datetime import datetime

    from sqlalchemy import Engine

MIN_ID_DIGITS = 4


class Insights:
    """Reads for the fronts. All methods raise Unavailable when the database does not answer."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine

    def find(self, text: str) -> UUID:
        """The id that ``text`` is, or is the beginning of. Raises NotFound, also when several begin like that."""
        digits = text.replace("-", "").lower()
        if not MIN_ID_DIGITS <= len(digits) <= 32 or set(digits) - set("0123456789abcdef"):
            raise NotFound(f"{text!r} is not a job id, nor its first {MIN_ID_DIGITS} or more digits")
        if len(digits) == 32:
            return UUID(digits)
        with transaction(self.engine) as connection:
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
        with transaction(self.engine) as connection:
            return [read_job(row) for row in connection.execute(query(name), params).mappings()]

    def files(self, job_id: UUID) -> list[StoredFile]:
        """The published files of a completed job, in order."""
        with transaction(self.engine) as connection:
            rows = connection.execute(query("file_list"), {"id": job_id}).mappings()
            return [StoredFile(**row) for row in rows]

    def events(self, job_id: UUID) -> list[JobEvent]:
        """The job's history, oldest first."""
        with transaction(self.engine) as connection:
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

    def counts(self) -> dict[Status, tuple[int, datetime]]:
        """How many jobs have each status, and when the oldest of them was made."""
        with transaction(self.engine) as connection:
            rows = connection.execute(query("job_counts")).all()
        return {Status(row.status): (row.jobs, row.oldest) for row in rows}
