"""How long a job takes from its request to each later status, on a stack that is up and idle."""

from __future__ import annotations

import time
from statistics import median, quantiles
from typing import Annotated

from cyclopts import App, Parameter

from bench.command import run
from outhaul import console
from outhaul.errors import Unavailable
from outhaul.wiring import outhaul

STEPS = {"admit": "queued", "claim": "processing", "complete": "completed"}
LONGEST_S = 120

app = App(
    name="python -m bench.latency", help="Measure a running stack; `outhaul up` starts one, with the demo's data."
)


@app.default
def bench(
    *,
    dataset: str = "weather",
    tenant: str = "UA",
    jobs: Annotated[int, Parameter(help="Jobs, one after the other.")] = 20,
    rest: Annotated[float, Parameter(help="Seconds in between: it takes a few until the stack is idle again.")] = 6.0,
) -> None:
    """Ask for small exports, one after the other, and print the seconds from each request to each later status."""
    taken: dict[str, list[float]] = {status: [] for status in STEPS.values()}
    with outhaul() as oh:
        for _ in range(jobs):
            raw = {"dataset": dataset, "query": {"limit": 10}}
            job, _ = oh.exports.request(raw, tenant=tenant, requested_by="bench")
            end = time.monotonic() + LONGEST_S
            while job.status not in console.TERMINAL:
                if time.monotonic() > end:
                    raise Unavailable(f"job {job.short_id} is still {job.status} after {LONGEST_S} s")
                time.sleep(0.1)
                job = oh.jobs.get(job.id)
            for event in oh.exports.events(job):
                if event.event in STEPS:
                    taken[STEPS[event.event]].append((event.at - job.created_at).total_seconds())
            time.sleep(rest)
    console.table(
        ["seconds from request to", "median", "95th percentile", "least"],
        [
            (name, f"{median(t):.2f}", f"{quantiles(t, n=20, method='inclusive')[18]:.2f}", f"{min(t):.2f}")
            for name, t in taken.items()
        ],
        right=["median", "95th percentile", "least"],
    )


if __name__ == "__main__":
    run(app)
