"""One run carries out one generation of one job: claim, produce, settle.

Whatever Prefect does with the run (loses, doubles or delays it), the claim in PostgreSQL decides. A failed attempt is
settled there first; then this same run is set to start again when the retry is due, so that no slot is held meanwhile.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any
from uuid import UUID

from prefect import flow, get_run_logger
from prefect.client.schemas.objects import FlowRun, State
from prefect.exceptions import TerminationSignal
from prefect.flows import Flow
from prefect.states import Completed

from outhaul.domain.job import Status
from outhaul.errors import Interrupted, OuthaulError, Unavailable
from outhaul.wiring import outhaul
from tasks.export import claim, explain, notify, owner, produce, run_id, settle


class NotYet(OuthaulError):
    """The run came before its retry is due: it comes back then."""

    code = "not_yet"


# Prefect calls hooks by keyword, so their parameters keep these names.
def start_again(flow: Flow[Any, Any], flow_run: FlowRun, state: State[Any]) -> None:  # noqa: ARG001
    """After a failure or crash: let the job's row say whether and when this run starts again."""
    job_id, run = UUID(str(flow_run.parameters["job_id"])), UUID(str(flow_run.id))
    with outhaul() as app:
        app.worker.after_run(job_id, run, crashed=state.is_crashed())
        if state.is_crashed():
            explain(app, job_id, run)


def cancelled(flow: Flow[Any, Any], flow_run: FlowRun, state: State[Any]) -> None:  # noqa: ARG001
    """After a cancel in Prefect's own interface: the job ends, too."""
    with outhaul() as app:
        app.worker.after_cancel(
            UUID(str(flow_run.parameters["job_id"])),
            int(flow_run.parameters.get("generation", 1)),
            actor=f"prefect {flow_run.id}",
        )


@flow(
    name="export",
    retries=0,
    persist_result=False,
    on_failure=[start_again],
    on_crashed=[start_again],
    on_cancellation=[cancelled],
)
def export(job_id: UUID, generation: int = 1) -> State[Any]:
    """Carry out an admitted job. Raises what stopped it, after the job's row has been settled."""
    with outhaul() as app:
        job = claim(app, job_id, generation)
        if job is None:
            standing = app.jobs.get(job_id)
            if standing.status is Status.FAILED and standing.generation == generation:
                raise NotYet(f"the retry of job {standing.short_id} is not due yet")
            return Completed(message=f"Nothing to do: the job is {standing.status}, generation {standing.generation}.")
        with app.worker.hold(job) as lease:
            try:
                done = settle(app, job, produce(app, job, lease))
            except BaseException as error:
                told = isinstance(error, TerminationSignal | KeyboardInterrupt)
                cause = Interrupted("the worker was told to stop") if told else error
                status = app.worker.fail(job, cause, actor=owner())
                get_run_logger().error("job_%s job=%s attempt=%s: %s", status, job.id, job.attempt, cause)
                explain(app, job.id, run_id())
                raise
            finally:
                with suppress(Unavailable):
                    app.dispatcher.dispatch(actor=owner())
                    notify(app, job)
        return Completed(message=f"{done.rows_written:,} rows, {done.byte_count:,} bytes: {done.s3_key}")
