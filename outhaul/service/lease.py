"""A job's lease: kept by a heartbeat, and told to whoever works on the job when it is lost."""

from __future__ import annotations

import threading
import time
from concurrent.futures import FIRST_COMPLETED, Future, InvalidStateError, ThreadPoolExecutor, wait
from contextlib import suppress
from contextvars import copy_context
from typing import TYPE_CHECKING, Any, Self, TypeVar

from outhaul.errors import Cancelled, ExportError, Interrupted, LeaseLost, Unavailable

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import timedelta
    from types import TracebackType

    from outhaul.domain.job import Job
    from outhaul.store.jobs import JobStore

T = TypeVar("T")
LOOK_S = 2.0  # how often a worker looks whether it is to stop: a person waits for that, and a look costs little
PATIENCE, PATIENCE_S = 4, 0.5  # how often, and how long each time, work is awaited once it must stop


class Lease:
    """Keeps a claimed job for this worker while the block runs, by a heartbeat in a thread of its own.

    ``check`` raises as soon as the job is no longer this worker's to finish; ``interrupt`` is called then, too, from
    the heartbeat's thread, so that a query that says nothing for long is cut short.
    """

    def __init__(self, jobs: JobStore, job: Job, *, length: timedelta, beat: timedelta) -> None:
        self.job = job
        self.rows_done = 0
        self.rows_total_estimate: int | None = None
        self.interrupt: Callable[[], None] = lambda: None
        self._jobs = jobs
        self._length = length
        self._beat = beat
        self._ended = threading.Event()
        self._stopped: Future[None] = Future()  # holds the reason
        self._thread = threading.Thread(target=self._run, name=f"lease {job.short_id}", daemon=True)

    def check(self) -> None:
        """Raise LeaseLost or Cancelled when the work must stop."""
        if self._stopped.done():
            self._stopped.result()

    def carry_out(self, work: Callable[[], T], late: Callable[[], None]) -> T:
        """Have ``work`` done by a thread of its own, and do not wait for it for long once it must stop.

        A store that has fallen silent holds it up for minutes. The job need not wait for that: the work is left to end
        by itself, and ``late`` is called when it has.

        Raises:
            LeaseLost, Cancelled: as ``check``, when the work is left behind; otherwise whatever it raises itself.
        """
        threads = ThreadPoolExecutor(1, thread_name_prefix="outhaul export")
        working = threads.submit(copy_context().run, work)
        threads.shutdown(wait=False)
        ends: tuple[Future[Any], ...] = (working, self._stopped)
        try:
            wait(ends, return_when=FIRST_COMPLETED)
        except BaseException:  # a signal, which Python brings to this thread alone
            self._stop(Interrupted("the worker was told to stop"))
            self._leave(working, late)
            raise
        if self._stopped.done() and self._leave(working, late):
            self.check()
        return working.result()

    def renew(self) -> None:
        """Renew now. A database that does not answer is not yet a lost lease: the next beat tries again."""
        self._heed(
            lambda: self._jobs.renew(
                self.job, lease=self._length, rows_done=self.rows_done, rows_total_estimate=self.rows_total_estimate
            )
        )

    def _heed(self, ask: Callable[[], bool | None]) -> None:
        try:
            cancel = ask()
        except Unavailable:
            return
        if cancel is None:
            self._stop(LeaseLost("another attempt has taken this job over"))
        elif cancel:
            self._stop(Cancelled("the export was cancelled"))

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        beat = self._beat.total_seconds()
        renewed = time.monotonic()
        while not self._ended.wait(min(beat, LOOK_S)):
            if time.monotonic() - renewed >= beat:
                renewed = time.monotonic()
                self.renew()
            else:
                self._heed(lambda: self._jobs.look(self.job))

    def _stop(self, reason: ExportError) -> None:
        with suppress(InvalidStateError):  # the first reason counts
            self._stopped.set_exception(reason)
        self.interrupt()

    def _leave(self, working: Future[T], late: Callable[[], None]) -> bool:
        """Give the work a moment to end in order; returns whether it was left behind."""
        for _ in range(PATIENCE):
            if wait((working,), PATIENCE_S).done:
                return False
            self.interrupt()  # one that comes just before a query begins is lost
        working.add_done_callback(lambda _: late())
        return True
