from itertools import pairwise

import pytest

from outhaul.domain.job import Status
from outhaul.domain.transitions import TRANSITIONS, Event, allowed, sources, target


def test_every_status_and_event_is_in_the_table():
    assert set(TRANSITIONS) == set(Status)
    assert {event for moves in TRANSITIONS.values() for event in moves} == set(Event)


@pytest.mark.parametrize("event", Event)
def test_an_event_has_one_target_and_leaves_only_its_sources(event):
    for status in Status:
        assert (event in allowed(status)) == (status in sources(event))
    assert all(TRANSITIONS[status][event] is target(event) for status in sources(event))


def test_the_life_of_a_job_that_succeeds_at_the_second_try():
    path = [Status.ENQUEUED, Status.QUEUED, Status.PROCESSING, Status.FAILED]
    path += [Status.QUEUED, Status.PROCESSING, Status.COMPLETED]
    for before, after in pairwise(path):
        assert after in TRANSITIONS[before].values()


def test_completed_is_final_and_only_a_person_revives_what_ended():
    assert TRANSITIONS[Status.COMPLETED] == {}
    assert set(TRANSITIONS[Status.CANCELLED]) == {Event.REQUEUE}
    assert set(TRANSITIONS[Status.DEAD]) == {Event.REQUEUE, Event.DISCARD}
