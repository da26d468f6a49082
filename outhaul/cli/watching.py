"""Waiting for jobs in a terminal."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from outhaul import console

if TYPE_CHECKING:
    from outhaul.domain.job import Job
    from outhaul.service.exports import Exports

POLL_S = 0.3


def watch(exports: Exports, jobs: list[Job]) -> list[Job]:
    """Show progress until every job has ended, then return them as they ended."""
    with console.JobProgress() as progress:
        while True:
            jobs = [exports.jobs.get(job.id) for job in jobs]
            for job in jobs:
                progress.show(job)
            if all(job.status in console.TERMINAL for job in jobs):
                return jobs
            time.sleep(POLL_S)
