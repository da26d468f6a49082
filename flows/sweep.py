"""Each minute: mend what went astray and admit what waits."""

from __future__ import annotations

from prefect import flow, get_run_logger

from outhaul.wiring import outhaul


@flow(name="sweep", retries=0, persist_result=False)
def sweep() -> dict[str, int]:
    """Run one sweep; returns what was found. Two at once do no harm."""
    with outhaul() as app:
        found = dict(app.dispatcher.sweep())
    get_run_logger().info("swept %s", found)
    return found
