"""The databases that datasets are read from: where they are, and which of them is down."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from outhaul.domain.job import DEFAULT_SOURCE
from outhaul.domain.pause import Pause, Scope
from outhaul.errors import SourceError, Unavailable, unknown

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from outhaul.data.catalog import Dataset
    from outhaul.domain.job import Job
    from outhaul.store.pauses import PauseStore

BREAKER = "circuit breaker"
# The sweep looks each minute whether a source is back; should no sweep run, jobs try by themselves after so long.
LONGEST_TRIP = timedelta(minutes=10)


@dataclass(frozen=True, slots=True)
class Sources:
    """All source databases by name, with a circuit breaker each.

    The breaker is a pause of the source: jobs that read it wait in line with a reason that anyone can see, instead of
    spending their retries, until a look finds the source back.
    """

    default: Callable[[], str]
    named: Mapping[str, str]
    pauses: Callable[[], PauseStore]  # `outhaul copy` has sources, but no queue

    @property
    def names(self) -> list[str]:
        """Every source there is."""
        return [DEFAULT_SOURCE, *self.named]

    def url(self, name: str) -> str:
        """The libpq URI of a source. Raises Unavailable when it is not configured."""
        if name == DEFAULT_SOURCE:
            return self.default()
        if name not in self.named:
            raise Unavailable(f"OUTHAUL_SOURCES: {unknown('source', name, self.names)}")
        return self.named[name]

    def url_of(self, dataset: Dataset) -> str:
        """Where a dataset is read from; empty for a lake, which is in no database. Raises Unavailable."""
        return "" if dataset.database is None else self.url(dataset.database)

    def trip(self, name: str, error: SourceError) -> None:
        """Hold back what reads a source that cannot be reached."""
        reason = error.message.rstrip(".")
        self.pauses().add(Pause(Scope.SOURCE, name, BREAKER, reason, error.detail, automatic=True), LONGEST_TRIP)

    def tend(self) -> int:
        """Let go of the sources that are back; returns how many."""
        from outhaul.data.readers import probe

        back = 0
        for pause in self.pauses().all():
            if pause.scope is not Scope.SOURCE or not pause.automatic:
                continue
            try:
                probe(self.url(pause.name))
            except SourceError as error:
                self.trip(pause.name, error)
            except Unavailable:
                continue
            else:
                back += self.pauses().lift(pause.scope, pause.name, automatic_only=True)
        return back

    def end_readers(self, job: Job) -> None:
        """End what the job's attempts so far still run on its source; a source that does not answer runs nothing."""
        from outhaul.data.readers import end_readers

        with suppress(SourceError, Unavailable):
            end_readers(self.url(job.source), job.id, job.attempt)
