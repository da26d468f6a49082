"""Letting waiting jobs in, now or in the background."""

from __future__ import annotations

import logging
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Self

from outhaul.errors import OuthaulError, PrefectUnavailable

if TYPE_CHECKING:
    from outhaul.service.dispatcher import Dispatcher

REST_S = 0.2  # between rounds, each of which holds the lock of admission for some milliseconds
logger = logging.getLogger(__name__)


class AtOnce:
    """Admits before it returns. With Prefect out of reach, the sweep admits later."""

    def __init__(self, dispatcher: Dispatcher) -> None:
        self._dispatcher = dispatcher

    def __call__(self, actor: str) -> None:
        """Admit what may be admitted."""
        with suppress(PrefectUnavailable):
            self._dispatcher.dispatch(actor=actor)


class InBackground:
    """Admits in a thread of its own: a server's asker need not wait until Prefect has made a run.

    Calls that come while it is at work are answered by one more round, after a short rest: many askers make no more
    rounds than a few. Use it as a context manager.
    """

    def __init__(self, dispatcher: Dispatcher) -> None:
        self._dispatcher = dispatcher
        self._rung = threading.Event()
        self._ended = threading.Event()
        self._actor = "api"
        self._thread = threading.Thread(target=self._run, name="admission", daemon=True)

    def __call__(self, actor: str) -> None:
        """Have it admit what may be admitted."""
        self._actor = actor
        self._rung.set()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._rung.set()
        self._thread.join(timeout=10)

    def _run(self) -> None:
        while self._rung.wait() and not self._ended.is_set():
            self._rung.clear()
            try:
                self._dispatcher.dispatch(actor=self._actor)
            except OuthaulError as error:
                logger.warning("not_admitted: %s; the sweep will", error.message)
            self._ended.wait(REST_S)
