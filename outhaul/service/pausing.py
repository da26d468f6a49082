"""Hold things back and let them go again."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from outhaul.domain.pause import Pause, Scope
from outhaul.errors import InvalidRequest, NotFound, PrefectUnavailable, unknown

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import timedelta

    from outhaul.data.catalog import Catalog
    from outhaul.service.dispatcher import Dispatcher
    from outhaul.service.sources import Sources
    from outhaul.store.pauses import PauseStore
    from outhaul.store.tenants import TenantStore


@dataclass(frozen=True, slots=True)
class Pausing:
    """Pauses of the queue, a tenant, a dataset or a source: jobs may be asked for and wait; those under way go on.

    Methods raise NotFound or InvalidRequest for what does not exist, and Unavailable when the database does not answer.
    """

    pauses: PauseStore
    tenants: TenantStore
    catalog: Callable[[], Catalog]
    sources: Sources
    dispatcher: Dispatcher

    def pause(
        self, scope: Scope, name: str, *, actor: str, reason: str = "", lasting: timedelta | None = None
    ) -> tuple[Pause, bool]:
        """Hold something back for so long, or until it is resumed; returns the pause and whether it is new."""
        self._check(scope, name)
        pause = Pause(scope, name, actor, reason)
        return pause, self.pauses.add(pause, lasting)

    def resume(self, scope: Scope, name: str, *, actor: str) -> int:
        """End a pause and admit what waited for it; returns how many jobs were admitted at once.

        With Prefect out of reach, the sweep admits them later.
        """
        if not self.pauses.lift(scope, name):
            raise NotFound(f"{Pause(scope, name, actor).thing} is not paused")
        with suppress(PrefectUnavailable):
            return self.dispatcher.dispatch(actor=actor)
        return 0

    def all(self) -> list[Pause]:
        """What is paused now."""
        return self.pauses.all()

    def _check(self, scope: Scope, name: str) -> None:
        match scope:
            case Scope.QUEUE if name:
                raise InvalidRequest("name", "there is one queue: it has no name")
            case Scope.TENANT:
                self.tenants.get(name)
            case Scope.DATASET:
                self.catalog().get(name)
            case Scope.SOURCE if name not in self.sources.names:
                raise InvalidRequest("source", unknown("source", name, self.sources.names))
