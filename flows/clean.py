"""Each hour: take away what writers that were killed left in the store."""

from __future__ import annotations

from datetime import timedelta

from prefect import flow, get_run_logger

from outhaul.wiring import outhaul

SPARE = timedelta(hours=1)


@flow(name="clean", retries=0, persist_result=False)
def clean() -> int:
    """Remove unfinished uploads that nobody works on any more; returns how many. Two at once do no harm."""
    with outhaul() as app:
        # The first of many files may be ready hours before the last: it waits as long as its export may read.
        idle = timedelta(seconds=app.settings.statement_timeout_seconds) + SPARE
        removed = app.files.clean_uploads("", idle)
    get_run_logger().info("cleaned uploads=%s idle_for=%s", removed, idle)
    return removed
