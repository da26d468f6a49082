"""What all waiting jobs have in common: who is under way, who is in line, what is held back, how long jobs take."""

from __future__ import annotations

import threading
import time
from collections import Counter
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from outhaul.domain.pause import Pause, Scope
from outhaul.store.database import autocommit, query
from outhaul.store.pauses import read_pauses

if TYPE_CHECKING:
    from collections.abc import Sequence
    from uuid import UUID

    from sqlalchemy import Engine

    from outhaul.domain.job import Job

WIDEST_FIRST = (Scope.QUEUE, Scope.SOURCE, Scope.DATASET, Scope.TENANT)


@dataclass(frozen=True, slots=True)
class Line:
    """The line at one moment.

    Attributes:
        waiting: jobs in line, by tenant.
        of_tenant: jobs under way, by tenant.
        of_source: the same by source.
        usual: median duration of recent exports, None when there are none.
        pauses: all that are in force.
    """

    waiting: Counter[UUID]
    of_tenant: Counter[UUID]
    of_source: Counter[str]
    usual: timedelta | None
    pauses: Sequence[Pause]

    def ahead(self, job: Job, own: int) -> int:
        """Jobs that can come before it: ``own`` of its tenant, and of each other tenant as many as can by turns."""
        others = (min(jobs, own + 1) for tenant, jobs in self.waiting.items() if tenant != job.tenant_id)
        return own + sum(others)

    def pauses_of(self, job: Job) -> list[Pause]:
        """Those that hold the job back, the widest first."""
        names = {Scope.QUEUE: "", Scope.SOURCE: job.source, Scope.DATASET: job.dataset, Scope.TENANT: job.tenant}
        return sorted(
            (pause for pause in self.pauses if pause.name == names[pause.scope]),
            key=lambda pause: WIDEST_FIRST.index(pause.scope),
        )


class LineStore:
    """Looks at the line. With thousands in it that takes milliseconds, so a server that many ask looks now and then.

    Args:
        engine: the control pool.
        fresh_for: how long one look serves.
    """

    def __init__(self, engine: Engine, fresh_for: timedelta) -> None:
        self.engine = engine
        self._fresh_for = fresh_for.total_seconds()
        self._looking = threading.Lock()
        self._seen: tuple[float, Line] | None = None

    def look(self) -> Line:
        """The line as it is, or was ``fresh_for`` ago at most. Raises Unavailable."""
        with self._looking:
            if self._seen is None or time.monotonic() - self._seen[0] >= self._fresh_for:
                self._seen = time.monotonic(), self._read()
            return self._seen[1]

    def _read(self) -> Line:
        with autocommit(self.engine) as connection:
            rows = connection.execute(query("line_jobs")).all()
            seconds = connection.execute(query("line_usual")).scalar_one()
            pauses = read_pauses(connection.execute(query("pause_list")).mappings())
        line = Line(
            Counter(), Counter(), Counter(), None if seconds is None else timedelta(seconds=float(seconds)), pauses
        )
        for row in rows:
            if row.waits:
                line.waiting[row.tenant_id] += row.jobs
            else:
                line.of_tenant[row.tenant_id] += row.jobs
                line.of_source[row.source] += row.jobs
        return line
