"""Ask for an export from Prefect's own interface: its form is the request."""

from __future__ import annotations

from typing import Annotated, Any

from prefect import flow, get_run_logger
from prefect.client.schemas.objects import State
from prefect.states import Completed, Failed
from pydantic import WithJsonSchema

from outhaul.domain.form import OptionsForm, QueryForm
from outhaul.domain.job import Format, Priority
from outhaul.errors import OuthaulError
from outhaul.wiring import outhaul
from tasks.request import asker, show_request, this_run


def _choice_of_datasets() -> dict[str, Any]:
    """The catalog's names as they are when this is deployed; where it cannot be read, any text.

    The form only helps to choose: what is asked for is held against the catalog of the worker.
    """
    try:
        with outhaul() as app:
            return {"type": "string", "enum": [dataset.name for dataset in app.catalog]}
    except OuthaulError:
        return {"type": "string"}


DatasetName = Annotated[str, WithJsonSchema(_choice_of_datasets())]
EVERYTHING = QueryForm()
USUAL = OptionsForm()


@flow(name="request-export", retries=0, persist_result=False)
def request_export(
    *,
    dataset: DatasetName,
    tenant: str,
    format: Format = Format.CSV,  # noqa: A002
    query: QueryForm = EVERYTHING,
    recipients: str = "",
    priority: Priority = Priority.NORMAL,
    options: OptionsForm = USUAL,
) -> State[Any]:
    """Ask for an export. What cannot be carried out is refused at once, and nothing is stored then.

    Started again, the same run asks for nothing new.

    Args:
        dataset: What is exported; `outhaul datasets show NAME` tells its columns.
        tenant: Whose rows; `outhaul tenants list` tells the names.
        format: Format of the files.
        query: Which rows and columns. Empty: all of the tenant's.
        recipients: E-mail addresses to tell of the end, separated by commas.
        priority: Order among the tenant's waiting jobs.
        options: How the files are written. Only what differs from its default counts, and only for the format above.
    """
    with outhaul() as app:
        try:
            raw = {
                "dataset": dataset,
                "format": format,
                "query": query.request(),
                "recipients": recipients,
                "priority": priority,
                "options": options.request(format),
                "idempotency_key": f"prefect run {this_run().id}",
            }
            job, _ = app.exports.request(raw, tenant=tenant, requested_by=asker())
        except OuthaulError as error:
            get_run_logger().error("export_refused: %s", error.message)
            return Failed(message=error.message)
        get_run_logger().info("job_requested job=%s tenant=%s dataset=%s", job.id, job.tenant, job.dataset)
        show_request(app, job)
        return Completed(message=f"Job {job.short_id} is {job.status}.")
