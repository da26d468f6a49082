"""Alerting operators: one message for each cause, not one for each failure."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

from outhaul.errors import PrefectUnavailable
from outhaul.notify import alert
from outhaul.notify.answer import Verdict

if TYPE_CHECKING:
    from outhaul.domain.alerts import Trouble
    from outhaul.notify.guard import Guard
    from outhaul.orchestrator import Orchestrator
    from outhaul.store.alerts import AlertStore

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Alerting:
    """Tells a chat, a notification block of Prefect, or both, of what went wrong.

    Attributes:
        url: incoming webhook as Slack has it, or None.
        block: notification block of Prefect, as ``slack-webhook/ops``, or None.
        prefect_ui: where the runs can be looked at.
    """

    store: AlertStore
    orchestrator: Orchestrator
    guard: Guard
    url: str | None
    block: str | None
    prefect_ui: str

    def look(self) -> int:
        """Tell of what has not been told of; returns how many messages were sent. Raises Unavailable.

        With nobody to tell, nothing is remembered either: whoever sets an address up hears of the last day.
        """
        if not self.url and not self.block:
            return 0
        sent = 0
        for trouble in self.store.find():
            if self.store.take(trouble):
                if self._tell(self.text(trouble)):
                    sent += 1
                else:
                    self.store.give_back(trouble)
        return sent

    def text(self, trouble: Trouble) -> str:
        """The whole message."""
        lines = [trouble.text]
        if trouble.tenants:
            lines.append(f"Tenants: {trouble.whose}")
        lines.append(f"Newest: outhaul job {str(trouble.newest)[:8]}")
        if trouble.run:
            lines.append(f"Prefect run: {self.prefect_ui}/runs/flow-run/{trouble.run}")
        return "\n".join(lines)

    def _tell(self, text: str) -> bool:
        told = True
        if self.url:
            answer = alert.post(self.url, text, guard=self.guard)
            told = answer.verdict is Verdict.DELIVERED
            if not told:
                logger.warning("alert_not_sent: %s %s", answer.note, answer.detail)
        if self.block:
            try:
                self.orchestrator.notify(self.block, text)
            except PrefectUnavailable as error:
                logger.warning("alert_not_sent: %s %s", error.message, error.detail)
                told = False
        return told
