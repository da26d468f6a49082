"""Commands that ask for exports and manage them."""

from __future__ import annotations

import getpass
import signal
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from outhaul import console
from outhaul.cli.parameters import (
    Columns,
    FormatName,
    JobId,
    Json,
    Limit,
    Options,
    SortBy,
    Where,
    read_options,
    read_query,
)
from outhaul.cli.watching import watch
from outhaul.domain.job import DEFAULT_SOURCE, Format, Priority, Status
from outhaul.errors import Interrupted, InvalidRequest, unknown
from outhaul.wiring import outhaul

if TYPE_CHECKING:
    from collections.abc import Iterator

    from outhaul.service.copying import Copying, Interrupt


def request(
    dataset: str,
    /,
    *,
    tenant: str,
    format_: FormatName = Format.CSV,
    where: Where = None,
    columns: Columns = None,
    sort: SortBy = None,
    limit: Limit = None,
    option: Options = None,
    priority: Annotated[str, Parameter(help="high, normal or low.")] = Priority.NORMAL,
    recipients: Annotated[str, Parameter(help="E-mail addresses, separated by commas.")] = "",
    idempotency_key: Annotated[str | None, Parameter(help="The same key makes no second job.")] = None,
    requested_by: Annotated[str | None, Parameter(help="Who asks. Default: your user name.")] = None,
    wait: Annotated[bool, Parameter(negative="", help="Show progress and wait for the end.")] = False,
    json: Json = False,
) -> int:
    """Ask for an export of DATASET; prints the job."""
    raw = {
        "dataset": dataset,
        "query": read_query(where, columns, sort, limit),
        "format": format_,
        "options": read_options(option),
        "priority": priority,
        "recipients": recipients,
        "idempotency_key": idempotency_key,
    }
    with outhaul() as oh:
        job, new = oh.exports.request(raw, tenant=tenant, requested_by=requested_by or getpass.getuser())
        if not new:
            console.err.print(f"job {job.short_id} was already made with this idempotency key")
        if wait:
            job = watch(oh.exports, [job])[0]
        if json:
            console.print_json(console.job_document(job, oh.exports.files(job)))
        elif wait:
            console.job_page(job, oh.exports.files(job), oh.exports.events(job), oh.store_url)
        else:
            sys.stdout.write(f"{job.id} {job.status}\n")
    return 1 if wait and job.status is not Status.COMPLETED else 0


def jobs(*, status: str | None = None, tenant: str | None = None, count: int = 50, json: Json = False) -> None:
    """List the newest jobs."""
    if status is not None and status not in list(Status):
        raise InvalidRequest("status", unknown("status", status, Status))
    with outhaul() as oh:
        found = oh.exports.recent(tenant, Status(status) if status else None, count)
    if json:
        console.print_json([console.job_document(job) for job in found])
    else:
        console.jobs_table(found)


def job(job_id: JobId, /, *, json: Json = False) -> None:
    """Show one job: its state, why it waits, its files and history. ID may be cut after four or more digits."""
    with outhaul() as oh:
        found = oh.exports.job(job_id)
        files, events, wait = oh.exports.files(found), oh.exports.events(found), oh.exports.wait(found)
        if json:
            console.print_json({**console.job_document(found, files), "wait": wait, "events": events})
        else:
            console.job_page(found, files, events, oh.store_url, wait)


def cancel(job_id: JobId, /) -> None:
    """Stop a job that has not ended."""
    with outhaul() as oh:
        found = oh.exports.cancel(oh.exports.job(job_id), actor=getpass.getuser())
    stopping = " (asked its worker to stop)" if found.status is Status.PROCESSING else ""
    sys.stdout.write(f"{found.id} {found.status}{stopping}\n")


def retry(job_id: JobId, /) -> None:
    """Start a dead or cancelled job anew."""
    with outhaul() as oh:
        found = oh.exports.retry(oh.exports.job(job_id), actor=getpass.getuser())
    sys.stdout.write(f"{found.id} {found.status}, generation {found.generation}\n")


def hold(job_id: JobId, /, *, lift: Annotated[bool, Parameter(negative="", help="Lift the hold.")] = False) -> None:
    """Put a job under legal hold: its files and row are kept whatever retention says."""
    with outhaul() as oh:
        found = oh.exports.hold(oh.exports.job(job_id), hold=not lift, actor=getpass.getuser())
    sys.stdout.write(f"{found.id} {'is under legal hold' if found.legal_hold else 'is no longer held'}\n")


def sweep() -> None:
    """Mend what went astray and admit what waits, once; the maintenance pool does it each minute."""
    with outhaul() as oh:
        found = oh.dispatcher.sweep()
    sys.stdout.write(", ".join(f"{count} {what}" for what, count in found.items() if count) or "nothing to do")
    sys.stdout.write("\n")


def copy(
    dataset: str | None = None,
    /,
    *,
    to: Annotated[str, Parameter(help="A file, or s3://bucket/key.")],
    tenant: str | None = None,
    sql: Annotated[str | None, Parameter(help="One SELECT instead of a dataset; for operators.")] = None,
    source: Annotated[str, Parameter(help="Where --sql runs: default, or a name of OUTHAUL_SOURCES.")] = DEFAULT_SOURCE,
    format_: FormatName | None = None,
    where: Where = None,
    columns: Columns = None,
    sort: SortBy = None,
    limit: Limit = None,
    option: Options = None,
    json: Json = False,
) -> None:
    """Copy rows straight to a file, without queue or Prefect; an existing file is replaced only by a whole one."""
    raw = {"format": format_, "query": read_query(where, columns, sort, limit), "options": read_options(option)}
    with outhaul() as oh, console.CopyProgress() as progress, ends_in_order(oh.copying) as interrupt:
        copied = oh.copying.copy(
            lambda: oh.catalog,
            dataset=dataset,
            sql=sql,
            source=source,
            tenant=tenant,
            to=to,
            raw=raw,
            on_progress=progress,
            interrupt=interrupt,
        )
    if json:
        console.print_json(copied)
    else:
        for file in copied.files:
            sys.stdout.write(f"{file.rows:,} rows, {file.bytes:,} bytes, sha256 {file.sha256}: {file.to}\n")


@contextmanager
def ends_in_order(copying: Copying) -> Iterator[Interrupt]:
    """Let Ctrl-C and SIGTERM end a copy between two steps; a second one ends it at once.

    An exception out of the blue would be lost in Polars, which takes over SIGINT while it works. ``copying`` has
    brought Polars in, so these handlers come after its own.
    """
    del copying
    from outhaul.service.copying import Interrupt

    interrupt, received = Interrupt(), [0]

    def end(number: int, _: object) -> None:
        received[0] = number
        signal.signal(number, signal.SIG_DFL)
        interrupt.now()

    before = {number: signal.signal(number, end) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield interrupt
    except Interrupted as error:
        sys.stderr.write(f"outhaul: {error.message}\n")
        sys.exit(128 + received[0])
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


COMMANDS = (request, jobs, job, cancel, retry, hold, copy, sweep)
