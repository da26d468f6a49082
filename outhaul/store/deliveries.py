"""The outbox: rows of ``deliveries`` and their log. ``store/jobs.py`` fills it as jobs move."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any

from outhaul.domain.notices import Delivery, Message, Notice, Outcome, Try
from outhaul.store.database import autocommit, query, transaction
from outhaul.store.jobs import read_job

if TYPE_CHECKING:
    from datetime import timedelta
    from uuid import UUID

    from sqlalchemy import Engine, RowMapping

DELIVERY_FIELDS = tuple(field.name for field in fields(Delivery))


class DeliveryStore:
    """Reads and moves notices. All methods raise Unavailable when the database does not answer."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine

    def take(self, count: int, per_addressee: int, hold: timedelta, job_id: UUID | None = None) -> list[Message]:
        """Take what is due, of one job or all; nobody else takes it before ``hold`` is over."""
        params = {"count": count, "per_addressee": per_addressee, "hold_s": hold.total_seconds(), "job_id": job_id}
        with transaction(self.engine) as connection:
            rows = connection.execute(query("delivery_take"), params).mappings().all()
            jobs = {
                row["job_id"]: read_job(
                    connection.execute(query("job_get"), {"id": row["job_id"], "tenant_id": None}).mappings().one()
                )
                for row in rows
            }
        return [
            Message(
                _read(row),
                jobs[row["job_id"]],
                row["at"],
                row["said"],
                row["url"],
                tuple(row["secrets"]),
                row["closed"],
            )
            for row in rows
        ]

    def record(
        self,
        delivery: Delivery,
        outcome: Outcome,
        *,
        answer: int | None,
        note: str,
        detail: str,
        delay: timedelta | None = None,
    ) -> Outcome | None:
        """Write what became of the try; DEAD for a retry too late, None when another has taken the notice since."""
        params = {
            "id": delivery.id,
            "tries": delivery.tries,
            "outcome": str(outcome),
            "answer": answer,
            "note": note,
            "detail": detail,
            "delay_s": delay.total_seconds() if delay else 0.0,
        }
        with autocommit(self.engine) as connection:
            became = connection.execute(query("delivery_record"), params).scalar_one_or_none()
        return Outcome(became) if became else None

    def all(self, *, job_id: UUID | None = None, endpoint_id: UUID | None = None, count: int = 100) -> list[Delivery]:
        """Notices of a job or to a webhook, newest first."""
        params = {"job_id": job_id, "endpoint_id": endpoint_id, "count": count}
        with autocommit(self.engine) as connection:
            return [_read(row) for row in connection.execute(query("delivery_list"), params).mappings()]

    def tries(self, delivery_id: UUID) -> list[Try]:
        """The log of one notice, oldest first."""
        with autocommit(self.engine) as connection:
            rows = connection.execute(query("delivery_tries"), {"id": delivery_id}).mappings()
            return [Try(**{**row, "outcome": Outcome(row["outcome"])}) for row in rows]

    def secret(self, name: str) -> str:
        """What all processes of this installation share and nobody else may know."""
        with autocommit(self.engine) as connection:
            value: str = connection.execute(query("secret_get"), {"name": name}).scalar_one()
        return value


def _read(row: RowMapping) -> Delivery:
    values: dict[str, Any] = {name: row[name] for name in DELIVERY_FIELDS}
    return Delivery(**{**values, "notice": Notice(row["notice"])})
