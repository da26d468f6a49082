"""Stable links to files: they need no login, work for a while, and are the same whenever they are made."""

from __future__ import annotations

import hmac
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from outhaul.errors import Gone, NotFound

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import timedelta
    from uuid import UUID

    from outhaul.domain.job import Job


@dataclass(frozen=True, slots=True)
class Links:
    """Makes and checks links of the form ``<public_url>/v1/exports/<job>/files/<part>?token=<end>.<signature>``.

    Behind one stands the service, which signs or streams when it is opened: it outlives the credentials of the store.
    """

    public_url: str
    secret: Callable[[], str]
    life: timedelta

    def of_file(self, job: Job, part: int) -> str:
        """The link to one file of a completed job."""
        end = int(self.end(job).timestamp())
        return f"{self.of_job(job)}/files/{part}?token={end}.{self._sign(job.id, part, end)}"

    def of_job(self, job: Job) -> str:
        """Where the API tells of the job; needs a key."""
        return f"{self.public_url}/v1/exports/{job.id}"

    def end(self, job: Job) -> datetime:
        """When the links to its files stop to work."""
        assert job.finished_at is not None
        return job.finished_at + self.life

    def check(self, job_id: UUID, part: int, token: str) -> None:
        """Raise NotFound for a token that is not ours, Gone for one past its end."""
        end, _, signature = token.partition(".")
        if not end.isascii() or not end.isdigit() or len(end) > 12:
            raise NotFound("this link is not valid")
        if not hmac.compare_digest(signature.encode(), self._sign(job_id, part, int(end)).encode()):
            raise NotFound("this link is not valid")
        if datetime.now(UTC).timestamp() > int(end):
            raise Gone("this link has expired: ask for a new one with GET /v1/exports/ID/files")

    def _sign(self, job_id: UUID, part: int, end: int) -> str:
        return hmac.new(self.secret().encode(), f"{job_id}/{part}/{end}".encode(), "sha256").hexdigest()[:40]
