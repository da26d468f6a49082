"""Handing out the files of completed jobs."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from outhaul.domain.job import Status
from outhaul.errors import Gone, NotFound, Refused
from outhaul.store.keys import content_disposition
from outhaul.store.local import LocalStore

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime
    from pathlib import Path

    from outhaul.domain.job import Job, StoredFile
    from outhaul.service.links import Links
    from outhaul.store.files import FileStore
    from outhaul.store.insights import Insights
    from outhaul.store.tenants import TenantStore

# A link into the store is used at once: it is signed when someone opens ours.
SIGNED_FOR = timedelta(minutes=15)


@dataclass(frozen=True, slots=True)
class Download:
    """One file to be handed out: either a ``url`` to send its asker to, or a ``path`` to stream from.

    ``disposition`` is the value of the header Content-Disposition; ``expires`` is when ``url`` ends.
    """

    file: StoredFile
    name: str
    disposition: str
    url: str | None
    path: Path | None
    expires: datetime


@dataclass(frozen=True, slots=True)
class Downloads:
    """Files of jobs.

    Methods raise NotFound for a file that never was, Refused for a job that has none yet or a tenant that may have
    none, Gone for one that retention has removed, StoreError or Unavailable when store or database do not answer.
    """

    insights: Insights
    tenants: TenantStore
    files: Callable[[], FileStore]
    links: Links

    def of_job(self, job: Job) -> list[tuple[StoredFile, str]]:
        """The files of a completed job, in order, each with a link that needs no key."""
        if job.status is not Status.COMPLETED:
            raise Refused(f"job {job.short_id} is {job.status}; only a completed one has files")
        return [(file, self.links.of_file(job, file.part)) for file in self.insights.files(job.id)]

    def open(self, job: Job, part: int, life: timedelta = SIGNED_FOR) -> Download:
        """Where the bytes of one file are."""
        if not self.tenants.get(job.tenant).export_enabled:
            raise Refused(f"tenant: exports are disabled for {job.tenant!r}, and so are their files")
        found = [file for file, _ in self.of_job(job) if file.part == part]
        if not found:
            raise NotFound(f"job {job.short_id} has no file {part}")
        file = found[0]
        name = file.s3_key.rpartition("/")[2]
        gone = Gone(f"file {name} of job {job.short_id} has been deleted: its time was over; ask for a new export")
        if file.deleted_at is not None:
            raise gone
        store = self.files()
        try:
            url, expires = store.link(file.s3_key, life, name)
        except NotFound:
            raise gone from None
        path = store.path(file.s3_key) if isinstance(store, LocalStore) else None
        return Download(file, name, content_disposition(name), None if path else url, path, expires)
