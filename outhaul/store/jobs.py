"""The jobs' rows: every move is one guarded statement that also writes its line of history."""

from __future__ import annotations

import json
from dataclasses import asdict, fields
from functools import cache
from typing import TYPE_CHECKING, Any

from sqlalchemy import text

from outhaul.domain.job import DEFAULT_SOURCE, Format, Job, Priority, Status
from outhaul.domain.notices import NOTICES, OUTCOMES
from outhaul.domain.transitions import Event, sources, target
from outhaul.errors import NotFound
from outhaul.store.database import autocommit, query, transaction

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import timedelta
    from uuid import UUID

    from sqlalchemy import Connection, Engine, RowMapping, TextClause

    from outhaul.domain.job import StoredFile
    from outhaul.domain.request import ExportRequest
    from outhaul.errors import OuthaulError

JOB_FIELDS = tuple(field.name for field in fields(Job))


class JobStore:
    """Reads and moves jobs. Methods that move return None, or False, when the guard says no; they never raise for it.

    All raise Unavailable when the database does not answer.

    Args:
        engine: the control pool.
        max_active: how many jobs may be under way in all.
        max_per_source: how many of them may read the same source.
    """

    def __init__(self, engine: Engine, *, max_active: int, max_per_source: int) -> None:
        self.engine = engine
        self._bounds: dict[str, Any] = {"max_active": max_active, "max_per_source": max_per_source}

    def add(
        self, tenant_id: UUID, request: ExportRequest, *, requested_by: str, source: str = DEFAULT_SOURCE
    ) -> tuple[UUID, bool]:
        """Store a request; returns the job's id and whether it is new (False: the idempotency key was used before)."""
        body = request.model_dump(mode="json")
        params = {
            **body,
            "tenant_id": tenant_id,
            "requested_by": requested_by,
            "source": source,
            "query": json.dumps(body["query"]),
            "options": json.dumps(body["options"]),
            **_event("enqueue", requested_by),
        }
        with autocommit(self.engine) as connection:
            row = connection.execute(_moving("job_add"), params).one_or_none()
            if row is not None:
                return row.id, True
        known = self.by_key(tenant_id, request.idempotency_key or "")
        assert known is not None
        return known, False

    def by_key(self, tenant_id: UUID, idempotency_key: str) -> UUID | None:
        """The id of the tenant's job that was made with this key."""
        params = {"tenant_id": tenant_id, "idempotency_key": idempotency_key}
        with autocommit(self.engine) as connection:
            found: UUID | None = connection.execute(query("job_by_key"), params).scalar_one_or_none()
        return found

    def get(self, job_id: UUID, tenant_id: UUID | None = None) -> Job:
        """Read one job, of one tenant if given. Raises NotFound."""
        with autocommit(self.engine) as connection:
            row = connection.execute(query("job_get"), {"id": job_id, "tenant_id": tenant_id}).mappings().one_or_none()
        if row is None:
            raise NotFound(f"there is no job {job_id}")
        return read_job(row)

    def admit(self, *, actor: str) -> list[UUID]:
        """Give waiting jobs their tenants' free places, fairly, as far as there is room."""
        with transaction(self.engine) as connection:
            connection.execute(query("admission_lock"))
            ids = [row["id"] for row in _move(connection, Event.ADMIT, actor, **self._bounds)]
            if ids:
                connection.execute(query("tenant_served"), {"ids": ids})
            return ids

    def set_run(self, job_id: UUID, generation: int, flow_run_id: UUID) -> None:
        """Remember which Prefect run will claim the job."""
        params = {"id": job_id, "generation": generation, "flow_run_id": flow_run_id}
        with autocommit(self.engine) as connection:
            connection.execute(query("job_run_set"), params)

    def due(self, job_id: UUID, generation: int, *, actor: str) -> bool:
        """Move a failed job whose time has come to queued, if there is a place and nothing it needs is paused."""
        with transaction(self.engine) as connection:
            connection.execute(query("admission_lock"))
            return bool(_move(connection, Event.DUE, actor, id=job_id, generation=generation, **self._bounds))

    def claim(
        self, job_id: UUID, generation: int, *, owner: str, flow_run_id: UUID | None, lease: timedelta
    ) -> Job | None:
        """Take the lease for ``owner``, raising the attempt by one; the job, or None if it is not to be taken."""
        row = self._move_one(
            Event.CLAIM,
            owner,
            id=job_id,
            generation=generation,
            owner=owner,
            flow_run_id=flow_run_id,
            lease_s=lease.total_seconds(),
        )
        return read_job(row) if row else None

    def renew(self, job: Job, *, lease: timedelta, rows_done: int, rows_total_estimate: int | None) -> bool | None:
        """Lengthen the lease; returns whether a cancel was asked for, or None when the lease is lost."""
        params = {
            "id": job.id,
            "attempt": job.attempt,
            "lease_s": lease.total_seconds(),
            "rows_done": rows_done,
            "rows_total_estimate": rows_total_estimate,
        }
        with autocommit(self.engine) as connection:
            answer: bool | None = connection.execute(query("job_renew"), params).scalar_one_or_none()
        return answer

    def look(self, job: Job) -> bool | None:
        """Whether a cancel was asked for, or None when the lease is lost; changes nothing, so it may come often."""
        with autocommit(self.engine) as connection:
            answer: bool | None = connection.execute(
                query("job_look"), {"id": job.id, "attempt": job.attempt}
            ).scalar_one_or_none()
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
        """Record the files and the end together; False when another attempt owns the job by now.

        ``remarks`` stand in the history with the counts: what the asker should know of a success.
        """
        rows, size = sum(f.row_count for f in stored), sum(f.byte_count for f in stored)
        moved = self._move_one(
            Event.COMPLETE,
            actor,
            detail={"rows": rows, "bytes": size, "files": len(stored), **(remarks or {})},
            also=("_file_add",),
            id=job.id,
            attempt=job.attempt,
            rows=rows,
            bytes=size,
            s3_key=manifest_key,
            files=json.dumps([asdict(file) for file in stored]),
        )
        return moved is not None

    def fail(self, job: Job, error: OuthaulError, *, delay: timedelta, actor: str, silent: bool = False) -> bool:
        """Let the job wait ``delay`` for its next retry; ``silent`` when its worker died without a word."""
        return self._settle(Event.FAIL, job, error, actor, silent=silent, delay_s=delay.total_seconds())

    def bury(self, job: Job, error: OuthaulError, *, actor: str, silent: bool = False) -> bool:
        """Give the job up until a person looks at it."""
        return self._settle(Event.BURY, job, error, actor, silent=silent)

    def give_back(self, job: Job, *, new_run: bool = True, actor: str, reason: str) -> bool:
        """Put a job back in line, free of charge, as long as it still stands where ``job`` does.

        ``new_run`` when its Prefect run is spent, so that the next is another. A failed job goes only once it is due.
        """
        moved = self._move_one(
            Event.RETURN,
            actor,
            detail={"reason": reason},
            id=job.id,
            generation=job.generation,
            attempt=job.attempt,
            seen=str(job.status),
            new_run=int(new_run),
        )
        return moved is not None

    def cancel(self, job: Job, *, actor: str, held: bool = False) -> bool:
        """Stop the job if it is still ``job.generation``, and one that is processing only in ``job.attempt``.

        ``held`` when that attempt is what stops it: then only as long as it has the job.
        """
        moved = self._move_one(
            Event.CANCEL, actor, id=job.id, generation=job.generation, attempt=job.attempt, held=held
        )
        return moved is not None

    def request_cancel(self, job_id: UUID, *, actor: str) -> bool:
        """Ask the worker that holds the job to stop; the cancel itself then stands under the worker's name."""
        return self.note("job_cancel_request", "cancel_request", actor, id=job_id)

    def note(
        self, statement: str, event: str, actor: str, detail: Mapping[str, Any] | None = None, **params: Any
    ) -> bool:
        """Do what moves no job and belongs into its history all the same; False when there is nothing to do."""
        with autocommit(self.engine) as connection:
            done = connection.execute(_moving(statement), {**params, **_event(event, actor, detail)})
            return done.first() is not None

    def requeue(self, job_id: UUID, *, actor: str) -> bool:
        """Start a dead or cancelled job anew."""
        return self._move_one(Event.REQUEUE, actor, id=job_id) is not None

    def discard(self, job_id: UUID, *, actor: str) -> bool:
        """Give a dead job up for good."""
        return self._move_one(Event.DISCARD, actor, id=job_id) is not None

    def hold(self, job_id: UUID, *, hold: bool, actor: str) -> None:
        """Set or lift the legal hold. Raises NotFound."""
        if not self.note("job_hold", "hold" if hold else "unhold", actor, id=job_id, hold=hold):
            raise NotFound(f"there is no job {job_id}")

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
        with autocommit(self.engine) as connection:
            return list(connection.execute(query(name), params).scalars())

    def _settle(self, event: Event, job: Job, error: OuthaulError, actor: str, *, silent: bool, **params: Any) -> bool:
        moved = self._move_one(
            event,
            actor,
            detail={"code": error.code, "message": error.message},
            id=job.id,
            attempt=job.attempt,
            code=error.code,
            message=error.message,
            detail_text=error.detail,
            silent=int(silent),
            **params,
        )
        return moved is not None

    def _move_one(
        self,
        event: Event,
        actor: str,
        detail: Mapping[str, Any] | None = None,
        also: tuple[str, ...] = (),
        **params: Any,
    ) -> RowMapping | None:
        with autocommit(self.engine) as connection:
            moved = _move(connection, event, actor, detail, also, **params)
        return moved[0] if moved else None


def _move(
    connection: Connection,
    event: Event,
    actor: str,
    detail: Mapping[str, Any] | None = None,
    also: tuple[str, ...] = (),
    **params: Any,
) -> Sequence[RowMapping]:
    guard = {"sources": [str(status) for status in sources(event)], "target": str(target(event))}
    said = _event(event, actor, detail)
    if notice := NOTICES.get(event):
        also = (*also, "_delivery_add")
        said |= {"notice": str(notice), "mailed": notice in OUTCOMES}
    return connection.execute(_moving(f"job_{event}", also), {**params, **guard, **said}).mappings().all()


def _event(event: str, actor: str, detail: Mapping[str, Any] | None = None) -> dict[str, Any]:
    return {"event": str(event), "actor": actor, "detail": json.dumps(dict(detail or {}))}


@cache
def _moving(name: str, also: tuple[str, ...] = ()) -> TextClause:
    """A move, its line of history and what else belongs to it: one statement, so one round trip and all or nothing."""
    parts = {"moved": name, "told": "_event_add", **{part.removeprefix("_"): part for part in also}}
    clauses = ", ".join(f"{part} AS (\n{query(file)}\n)" for part, file in parts.items())
    return text(f"WITH {clauses} SELECT * FROM moved")  # noqa: S608 - made of our own files


def read_job(row: RowMapping) -> Job:
    """A row of ``export_jobs`` with its tenant's name, as a Job."""
    values = {name: row[name] for name in JOB_FIELDS}
    values.update(format=Format(row["format"]), priority=Priority(row["priority"]), status=Status(row["status"]))
    return Job(**values)
