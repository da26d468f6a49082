"""The steps of asking for an export."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prefect.artifacts import create_markdown_artifact
from prefect.context import FlowRunContext
from prefect.utilities.urls import url_for

from tasks.export import ornament
from tasks.pages import request_page

if TYPE_CHECKING:
    from prefect.client.schemas.objects import FlowRun

    from outhaul.domain.job import Job
    from outhaul.wiring import App


def this_run() -> FlowRun:
    """The run that this code is part of."""
    context = FlowRunContext.get()
    assert context is not None
    assert context.flow_run is not None
    return context.flow_run


def asker() -> str:
    """Who started this run, where Prefect tells: Cloud does, a server only for automations. Else the run's name."""
    run = this_run()
    return f"prefect {(run.created_by and run.created_by.display_value) or run.name}"


def show_request(app: App, job: Job) -> None:
    """Leave on the run's page what was asked for, and where it is to be found."""
    run_id = job.prefect_flow_run_id
    with ornament():
        create_markdown_artifact(
            request_page(
                job,
                app.exports.wait(job),
                job_url=app.links.of_job(job),
                run_url=url_for("flow-run", obj_id=run_id) if run_id else None,
            ),
            key=f"request-{job.id}",
            description=f"Job {job.id}",
        )
