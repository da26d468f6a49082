"""The jobs' rows: every move is one guarded statement, and its line of history is written in the same transaction."""

from __future__ import annotations

import json
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from outhaul.domain.job import Format, Job, Priority, Status, StoredFile
from outhaul.domain.transitions import Event, sources, target
from outhaul.errors import NotFound
from outhaul.store.database import query, transaction

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import timedelta
    from uuid import UUID

    from sqlalchemy import Connection, Engine, RowMapping

    from outhaul.domain.request import ExportRequest
    from outhaul.errors import OuthaulError

JOB_FIELDS = tuple(field.name for field in fields(Job))


class JobStore:
    """Reads and moves jobs. Methods that move return None, or False, when the guard says no; they never raise for it.

    All raise Unavailable when the database does not answer.
    """

    def __init__(self, engine: Engine) -> None:
        self.engine = engine

    def add(self, tenant_id: UUID, request: ExportRequest, *, requested_by: str) -> tuple[UUID, bool]:
        """Store a request; returns the job's id and whether it is new (False: the idempotency key was used before)."""
        body = request.model_dump(mode="json")
        with transaction(self.engine) as connection:
            row = connection.execute(
                query("job_add"),
                {
                    **body,
                    "tenant_id": tenant_id,
                    "requested_by": requested_by,
                    "query": json.dumps(body["query"]),
                    "options": json.dumps(body["options"]),
                },
            ).one_or_none()
            if row is None:
                key = {"tenant_id": tenant_id, "idempotency_key": request.idempotency_key}
                return connection.execute(query("job_by_key"), key).scalar_one(), False
            _record(connection, row._mapping, "enqueue", actor=requested_by)  # noqa: SLF001
            return row.id, True

    def get(self, job_id: UUID, tenant_id: UUID | None = None) -> Job:
        """Read one job, of one tenant if given. Raises NotFound."""
        with transaction(self.engine) as connection:
            row = connection.execute(query("job_get"), {"id": job_id, "tenant_id": tenant_id}).one_or_none()
        if row is None:
            raise NotFound(f"there is no job {job_id}")
        return read_job(row._mapping)  # noqa: SLF001

    def admit(self, max_active: int, *, actor: str) -> list[UUID]:
        """Give waiting jobs their tenants' free places, fairly, up to ``max_active`` under way in all."""
        with transaction(self.engine) as connection:
            connection.execute(query("admission_lock"))
            return self._move(connection, Event.ADMIT, actor, max_active=max_active)

    def set_run(self, job_id: UUID, generation: int, flow_run_id: UUID) -> None:
        """Remember which Prefect run will claim the job."""
        params = {"id": job_id, "generation": generation, "flow_run_id": flow_run_id}
        with transaction(self.engine) as connection:
            connection.execute(query("job_run_set"), params)

    def due(self, job_id: UUID, generation: int, *, actor: str) -> bool:
        """Move a failed job whose time has come back to queued, if its tenant has a free place."""
        with transaction(self.engine) as connection:
            connection.execute(query("admission_lock"))
            return bool(self._move(connection, Event.DUE, actor, id=job_id, generation=generation))

    def claim(self, job_id: UUID, generation: int, *, owner: str, flow_run_id: UUID | None, lease: timedelta) -> bool:
        """Take the lease for ``owner``; raises the attempt by one."""
        return self._move_one(
            Event.CLAIM,
            owner,
            id=job_id,
            generation=generation,
            owner=owner,
            flow_run_id=flow_run_id,
            lease_s=lease.total_seconds(),
        )

    def renew(self, job: Job, *, lease: timedelta, rows_done: int, rows_total_estimate: int | None) -> bool | None:
        """Lengthen the lease; returns whether a cancel was asked for, or None when the lease is lost."""
        params = {
            "id": job.id,
            "attempt": job.attempt,
            "lease_s": lease.total_seconds(),
            "rows_done": rows_done,
            "rows_total_estimate": rows_total_estimate,
        }
        with transaction(self.engine) as connection:
            answer: bool | None = connection.execute(query("job_renew"), params).scalar_one_or_none()
        return answer

    def complete(
        self,
        job: Job,
        stored: Sequence[StoredFile],
        *,
        manifest_key: str,
        actor: str,
        remarks: Mapping[str, Any] | None = None,
    ) -> bool:
        """Record the files and the end in one transaction; False when another attempt owns the job by now.

        ``remarks`` stand in the history with the counts: what the asker should know of a success.
        """
        rows, size = sum(f.row_count for f in stored), sum(f.byte_count for f in stored)
        with transaction(self.engine) as connection:
            done = self._move(
                connection,
                Event.COMPLETE,
                actor,
                detail={"rows": rows, "bytes": size, "files": len(stored), **(remarks or {})},
                id=job.id,
                attempt=job.attempt,
                rows=rows,
                bytes=size,
                s3_key=manifest_key,
            )
            for file in stored if done else ():
                params = {"job_id": job.id, **{f.name: getattr(file, f.name) for f in fields(StoredFile)}}
                connection.execute(query("file_add"), params)
        return bool(done)

    def fail(self, job: Job, error: OuthaulError, *, delay: timedelta, actor: str) -> bool:
        """Let the job wait ``delay`` for its next retry."""
        return self._settle(Event.FAIL, job, error, actor, delay_s=delay.total_seconds())

    def bury(self, job: Job, error: OuthaulError, *, actor: str) -> bool:
        """Give the job up until a person looks at it."""
        return self._settle(Event.BURY, job, error, actor)

    def release(self, job: Job, *, actor: str) -> bool:
        """Hand a running job back, free of charge."""
        return self._move_one(Event.RELEASE, actor, id=job.id, attempt=job.attempt)

    def give_back(self, job: Job, *, new_run: bool, actor: str, reason: str) -> bool:
        """Put an admitted job back in line; ``new_run`` when its Prefect run is spent, so that the next is another."""
        return self._move_one(
            Event.RETURN,
            actor,
            detail={"reason": reason},
            id=job.id,
            generation=job.generation,
            new_run=int(new_run),
        )

    def cancel(self, job: Job, *, actor: str) -> bool:
        """Stop the job; one that is processing only if it is still ``job.attempt``."""
        return self._move_one(Event.CANCEL, actor, id=job.id, attempt=job.attempt)

    def request_cancel(self, job_id: UUID) -> bool:
        """Ask the worker that holds the job to stop."""
        with transaction(self.engine) as connection:
            return connection.execute(query("job_cancel_request"), {"id": job_id}).one_or_none() is not None

    def requeue(self, job_id: UUID, *, actor: str) -> bool:
        """Start a dead or cancelled job anew."""
        return self._move_one(Event.REQUEUE, actor, id=job_id)

    def discard(self, job_id: UUID, *, actor: str) -> bool:
        """Give a dead job up for good."""
        return self._move_one(Event.DISCARD, actor, id=job_id)

    def hold(self, job_id: UUID, *, hold: bool, actor: str) -> None:
        """Set or lift the legal hold. Raises NotFound."""
        with transaction(self.engine) as connection:
            row = connection.execute(query("job_hold"), {"id": job_id, "hold": hold}).mappings().one_or_none()
            if row is None:
                raise NotFound(f"there is no job {job_id}")
            _record(connection, row, "hold" if hold else "unhold", actor=actor)

    def lapsed(self) -> list[UUID]:
        """Jobs whose lease has run out."""
        return self._ids("job_lapsed")

    def without_run(self, grace: timedelta) -> list[UUID]:
        """Admitted jobs that never got a Prefect run."""
        return self._ids("job_without_run", grace_s=grace.total_seconds())

    def unclaimed(self, grace: timedelta) -> list[UUID]:
        """Admitted jobs that no worker has claimed for ``grace``."""
        return self._ids("job_queued", grace_s=grace.total_seconds())

    def overdue(self, grace: timedelta) -> list[UUID]:
        """Failed jobs whose retry should have begun ``grace`` ago."""
        return self._ids("job_overdue", grace_s=grace.total_seconds())

    def _ids(self, name: str, **params: Any) -> list[UUID]:
        with transaction(self.engine) as connection:
            return list(connection.execute(query(name), params).scalars())

    def _settle(self, event: Event, job: Job, error: OuthaulError, actor: str, **params: Any) -> bool:
        return self._move_one(
            event,
            actor,
            detail={"code": error.code, "message": error.message},
            id=job.id,
            attempt=job.attempt,
            code=error.code,
            message=error.message,
            detail_text=error.detail,
            **params,
        )

    def _move_one(self, event: Event, actor: str, detail: Mapping[str, Any] | None = None, **params: Any) -> bool:
        with transaction(self.engine) as connection:
            return bool(self._move(connection, event, actor, detail, **params))

    def _move(
        self,
        connection: Connection,
        event: Event,
        actor: str,
        detail: Mapping[str, Any] | None = None,
        **params: Any,
    ) -> list[UUID]:
        guard = {"sources": [str(status) for status in sources(event)], "target": str(target(event))}
        moved = connection.execute(query(f"job_{event}"), {**params, **guard}).mappings().all()
        for row in moved:
            _record(connection, row, event, actor=actor, detail=detail)
        return [row["id"] for row in moved]


def _record(
    connection: Connection, row: RowMapping, event: str, *, actor: str, detail: Mapping[str, Any] | None = None
) -> None:
    connection.execute(
        query("event_add"),
        {
            "job_id": row["id"],
            "attempt": row["attempt"],
            "event": str(event),
            "from_status": row["was"],
            "to_status": row["status"],
            "actor": actor,
            "detail": json.dumps(dict(detail or {})),
        },
    )


def read_job(row: RowMapping) -> Job:
    """A row of ``export_jobs`` with its tenant's name, as a Job."""
    values = {name: row[name] for name in JOB_FIELDS}
    values.update(format=Format(row["format"]), priority=Priority(row["priority"]), status=Status(row["status"]))
    return Job(**values)
