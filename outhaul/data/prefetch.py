"""Lets a producer work ahead of its consumer in a thread of its own, by a bounded number of items."""

from __future__ import annotations

import threading
from queue import Full, Queue
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable

T = TypeVar("T")
AHEAD = 2


def prefetch(items: Iterable[T], *, stop: Callable[[], None]) -> Generator[T]:
    """Yield ``items``, computed ahead; what they raise is raised here.

    Args:
        items: computed in another thread.
        stop: called when the consumer leaves early; must make a pending computation end soon.
    """
    ahead = _Ahead(items)
    try:
        while (batch := ahead.queue.get()) is not None:
            yield from batch
    finally:
        if ahead.leave():
            stop()
        ahead.thread.join()
    if ahead.error is not None:
        raise ahead.error


class _Ahead(Generic[T]):
    def __init__(self, items: Iterable[T]) -> None:
        self.queue: Queue[tuple[T] | None] = Queue(maxsize=AHEAD)
        self.error: BaseException | None = None
        self._items = items
        self._left = threading.Event()
        self._done = threading.Event()
        self.thread = threading.Thread(target=self._work, name="outhaul prefetch", daemon=True)
        self.thread.start()

    def leave(self) -> bool:
        """Want no more; returns whether there might have been."""
        self._left.set()
        return not self._done.is_set()

    def _work(self) -> None:
        try:
            for item in self._items:
                self._put((item,))
                if self._left.is_set():
                    return
        except BaseException as error:  # noqa: BLE001 - a Polars panic, too, must reach the consumer
            self.error = error
        finally:
            self._done.set()
            self._put(None)

    def _put(self, item: tuple[T] | None) -> None:
        while not self._left.is_set():
            try:
                self.queue.put(item, timeout=0.1)
            except Full:
                continue
            return
