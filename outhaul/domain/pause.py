"""What can be held back: the whole queue, a tenant, a dataset, or all that reads one source."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import datetime


class Scope(StrEnum):
    """Kinds of things that can be paused."""

    QUEUE = "queue"
    TENANT = "tenant"
    DATASET = "dataset"
    SOURCE = "source"


@dataclass(frozen=True, slots=True)
class Pause:
    """One thing held back: its jobs wait in line, those under way go on.

    Attributes:
        scope: what kind of thing.
        name: which one; empty for the whole queue.
        actor: who paused it.
        reason: why, in words for whoever waits.
        detail: the same for operators; may name hosts.
        automatic: Outhaul paused it and will lift the pause itself.
        since: when; None for one that is still to be stored.
        until: when it ends by itself, or None.
    """

    scope: Scope
    name: str
    actor: str
    reason: str = ""
    detail: str = ""
    automatic: bool = False
    since: datetime | None = None
    until: datetime | None = None

    @property
    def thing(self) -> str:
        """What is paused, in words."""
        return "the queue" if self.scope is Scope.QUEUE else f"{self.scope} {self.name}"
