"""The one table of how a job may move. The SQL guards, the panel's buttons and the API's 409 all derive from it."""

from __future__ import annotations

from enum import StrEnum

from outhaul.domain.job import Status


class Event(StrEnum):
    """What can happen to a job."""

    ADMIT = "admit"  # dispatch gave it one of its tenant's places
    RETURN = "return"  # back in line without charge: run lost, worker told to stop, source down, no place for the retry
    CLAIM = "claim"  # a worker took the lease; raises the attempt
    COMPLETE = "complete"  # files and manifest are stored
    FAIL = "fail"  # a transient error; a retry follows
    BURY = "bury"  # a permanent error, or no retries left
    DUE = "due"  # the time of its retry has come
    CANCEL = "cancel"
    REQUEUE = "requeue"  # a person starts it anew; raises the generation
    DISCARD = "discard"  # a person gives it up


TRANSITIONS: dict[Status, dict[Event, Status]] = {
    Status.ENQUEUED: {
        Event.ADMIT: Status.QUEUED,
        Event.CANCEL: Status.CANCELLED,
    },
    Status.QUEUED: {
        Event.RETURN: Status.ENQUEUED,
        Event.CLAIM: Status.PROCESSING,
        Event.CANCEL: Status.CANCELLED,
    },
    Status.PROCESSING: {
        Event.COMPLETE: Status.COMPLETED,
        Event.FAIL: Status.FAILED,
        Event.BURY: Status.DEAD,
        Event.RETURN: Status.ENQUEUED,
        Event.CANCEL: Status.CANCELLED,
    },
    Status.FAILED: {
        Event.DUE: Status.QUEUED,
        Event.RETURN: Status.ENQUEUED,
        Event.CANCEL: Status.CANCELLED,
    },
    Status.COMPLETED: {},
    Status.CANCELLED: {Event.REQUEUE: Status.ENQUEUED},
    Status.DEAD: {
        Event.REQUEUE: Status.ENQUEUED,
        Event.DISCARD: Status.CANCELLED,
    },
}


def sources(event: Event) -> list[Status]:
    """The statuses that ``event`` can leave."""
    return [status for status, moves in TRANSITIONS.items() if event in moves]


def target(event: Event) -> Status:
    """The status that ``event`` leads to; every event has exactly one."""
    (status,) = {moves[event] for moves in TRANSITIONS.values() if event in moves}
    return status


def allowed(status: Status) -> list[Event]:
    """What can happen to a job in ``status``."""
    return list(TRANSITIONS[status])
