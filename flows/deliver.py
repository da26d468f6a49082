"""Each minute: send the notices that are due, and alert operators to what went wrong."""

from __future__ import annotations

import time
from collections import Counter

from prefect import flow, get_run_logger

from outhaul.wiring import outhaul

ROUND_S = 45.0  # the next run begins a minute after this one


@flow(name="deliver", retries=0, persist_result=False)
def deliver() -> dict[str, int]:
    """Send batch after batch until nothing is due; returns what became of them. Two at once do no harm."""
    end = time.monotonic() + ROUND_S
    done: Counter[str] = Counter()
    with outhaul() as app:
        while time.monotonic() < end and (batch := app.deliveries.deliver()):
            done.update(batch)
        done["alerts"] = app.alerting.look()
    get_run_logger().info("delivered %s", dict(done))
    return dict(done)
