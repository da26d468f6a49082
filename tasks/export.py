"""The steps of one export run. None is retried by Prefect: the job's retries are decided in PostgreSQL."""

from __future__ import annotations

import logging
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING
from uuid import UUID

import httpx
from prefect import get_run_logger, task
from prefect.artifacts import create_markdown_artifact, create_progress_artifact, update_progress_artifact
from prefect.cache_policies import NO_CACHE
from prefect.client.orchestration import get_client
from prefect.client.schemas.actions import ArtifactCreate
from prefect.exceptions import MissingContextError, PrefectException
from prefect.runtime import flow_run
from prefect.utilities.urls import url_for

from outhaul.domain.job import Status
from outhaul.errors import Unavailable
from tasks.pages import failure_page

if TYPE_CHECKING:
    from collections.abc import Iterator

    from outhaul.domain.files import Produced
    from outhaul.domain.job import Job
    from outhaul.service.lease import Lease
    from outhaul.wiring import App

PROGRESS_EVERY_S = 2.0


def owner() -> str:
    """The name under which this run holds leases: one per start of a run."""
    return f"{flow_run.id}/{flow_run.run_count}"


def run_id() -> UUID:
    """This run's id."""
    return UUID(flow_run.id)


@task(cache_policy=NO_CACHE, persist_result=False, task_run_name="claim")
def claim(app: App, job_id: UUID, generation: int) -> Job | None:
    """Take the job's lease, or None when the job is not to be taken."""
    logger = get_run_logger()
    job = app.worker.claim(job_id, generation, owner=owner(), flow_run_id=run_id())
    if job is None:
        logger.warning("job_not_claimed job=%s generation=%s", job_id, generation)
    else:
        logger.info("job_claimed job=%s attempt=%s tenant=%s dataset=%s", job.id, job.attempt, job.tenant, job.dataset)
    return job


@task(cache_policy=NO_CACHE, persist_result=False, task_run_name="produce")
def produce(app: App, job: Job, lease: Lease) -> Produced:
    """Stream the rows into files, whole or not at all, with progress on the run's page."""
    progress = Progress(job)
    produced = app.worker.produce(job, lease, on_progress=progress)
    get_run_logger().info("job_produced job=%s rows=%s files=%s", job.id, produced.rows, len(produced.files))
    progress.finish()
    return produced


@task(cache_policy=NO_CACHE, persist_result=False, task_run_name="settle")
def settle(app: App, job: Job, produced: Produced) -> Job:
    """Record the success and leave a summary on the run's page."""
    done = app.worker.settle(job, produced, actor=owner())
    get_run_logger().info("job_completed job=%s rows=%s bytes=%s", done.id, done.rows_written, done.byte_count)
    rows = "\n".join(
        f"| `{file.s3_key}` | {file.row_count:,} | {file.byte_count:,} | `{file.sha256}` |" for file in produced.files
    )
    replaced = "".join(
        f"- column `{name}`: {count:,} values became NULL\n" for name, count in produced.replaced.items()
    )
    notes = "".join(f"- {note}\n" for note in produced.notes)
    with ornament():
        create_markdown_artifact(
            f"### {done.dataset} for {done.tenant}: {done.rows_written:,} rows\n\n"
            f"Store: `{app.store_url}`, manifest: `{done.s3_key}`\n\n"
            f"| file | rows | bytes | SHA-256 |\n|---|---:|---:|---|\n{rows}\n\n{replaced}{notes}",
            key=f"export-{done.id}",
            description=f"Files of job {done.id}, attempt {done.attempt}",
        )
    return done


@task(cache_policy=NO_CACHE, persist_result=False, task_run_name="notify")
def notify(app: App, job: Job) -> None:
    """Send the job's notices once; what is not taken is sent again by the flow ``deliver``."""
    if sent := app.deliveries.deliver(job_id=job.id):
        get_run_logger().info("job_told job=%s %s", job.id, dict(sent))


def explain(app: App, job_id: UUID, run: UUID) -> None:
    """Leave on the run's page why the job's attempt failed, if it did, and what comes next.

    Called also where there is no run: a worker does so for one whose process was killed.
    """
    with ornament(), suppress(Unavailable), get_client(sync_client=True) as client:
        job = app.jobs.get(job_id)
        if job.status in {Status.FAILED, Status.DEAD}:
            client.create_artifact(
                ArtifactCreate(
                    key=f"failure-{job.id}",
                    type="markdown",
                    description=f"Why attempt {job.attempt} of job {job.id} failed",
                    data=failure_page(job, job_url=app.links.of_job(job), run_url=url_for("flow-run", obj_id=run)),
                    flow_run_id=run,
                )
            )


class Progress:
    """A progress bar on the run's page, moved at most every two seconds: each move is a call to Prefect's API."""

    def __init__(self, job: Job) -> None:
        self._artifact: UUID | None = None
        self._moved = time.monotonic()
        with ornament():
            artifact = create_progress_artifact(
                0.0, key=f"progress-{job.id}", description=f"{job.dataset} for {job.tenant}, attempt {job.attempt}"
            )
            assert isinstance(artifact, UUID)
            self._artifact = artifact

    def __call__(self, rows: int, expected: int | None) -> None:
        """Show ``rows`` of about ``expected``; an estimate that was too low stops the bar short of its end."""
        if expected and time.monotonic() - self._moved >= PROGRESS_EVERY_S:
            self._moved = time.monotonic()
            self._show(min(99.0, 100.0 * rows / expected))

    def finish(self) -> None:
        """Fill the bar."""
        self._show(100.0)

    def _show(self, percent: float) -> None:
        if self._artifact:
            with ornament():
                update_progress_artifact(self._artifact, percent)


@contextmanager
def ornament() -> Iterator[None]:
    """What only adorns the run's page: an export must not fail because Prefect does not take it."""
    try:
        yield
    except (httpx.HTTPError, PrefectException, RuntimeError) as error:
        _logger().warning("artifact_not_shown: %s", error)


def _logger() -> logging.Logger | logging.LoggerAdapter[logging.Logger]:
    try:
        return get_run_logger()
    except MissingContextError:
        return logging.getLogger(__name__)
