"""What stands on the pages of runs, in Markdown."""

from __future__ import annotations

from typing import TYPE_CHECKING

from outhaul.domain.catalogue import look_up
from outhaul.domain.job import MAX_RETRIES, Status

if TYPE_CHECKING:
    from outhaul.domain.job import Job
    from outhaul.domain.waiting import Wait


def request_page(job: Job, wait: Wait | None, *, job_url: str, run_url: str | None) -> str:
    """What was asked for, and where it is to be found.

    Args:
        job: as it stands now.
        wait: why it is not running yet.
        job_url: where the API tells of the job.
        run_url: the page of the job's own run; None while it has none.
    """
    run = f"[its page]({run_url})" if run_url else f"made when it is its turn; its name will end in {job.short_id}"
    return (
        f"### {job.dataset} for {job.tenant} as {job.format}\n\n"
        f"The job is {job.status}{f': {wait.reason}' if wait else ''}.\n\n"
        "| | |\n|---|---|\n"
        f"| job | `{job.id}` |\n"
        f"| asked by | {job.requested_by} |\n"
        f"| export run | {run} |\n"
        f"| how it stands | `outhaul job {job.short_id}`, or [by the API]({job_url}) with a key of the tenant |\n"
        f"| its files, once it is completed | `outhaul job {job.short_id}` names them; "
        f"[the API]({job_url}/files) gives links to them |\n"
    )


def failure_page(job: Job, *, job_url: str, run_url: str | None) -> str:
    """What stopped an attempt of a job that is failed or dead, what that means, and what comes next."""
    known = look_up(job.error_code or "")
    return (
        f"### {job.dataset} for {job.tenant}: attempt {job.attempt} failed\n\n"
        f"```text\n{job.error_code}: {job.error_message}\n```\n\n"
        f"**Why:** {known.meaning}\n\n"
        f"**What usually helps:** {known.mend}\n\n"
        f"**What comes next:** {_next(job)}\n\n"
        f"Job [`{job.id}`]({job_url}); `outhaul job {job.short_id}` shows its detail and history."
        f"{f' [Its run]({run_url}).' if run_url else ''}\n"
    )


def _next(job: Job) -> str:
    if job.status is Status.FAILED and job.run_after:
        return (
            f"this run starts again at {job.run_after:%Y-%m-%d %H:%M:%S} UTC, as retry {job.retry_count} "
            f"of at most {MAX_RETRIES}."
        )
    return f"nothing by itself, the job is dead. Once that is mended, `outhaul retry {job.short_id}` starts it anew."
