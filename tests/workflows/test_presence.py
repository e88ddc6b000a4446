"""Whether a queue is served, by what workers and server have told; without a server."""

from datetime import timedelta

import pytest
from temporalio.api.enums.v1 import WorkerStatus
from temporalio.api.taskqueue.v1 import PollerInfo

from tests.workflows.pure import START
from tests.workflows.test_fleet import SHUTTING_DOWN, beat
from workflows.presence import QueuePresence, is_served

SHUTDOWN = WorkerStatus.WORKER_STATUS_SHUTDOWN


def poll(age: float, identity: str = "1@host") -> PollerInfo:
    said = PollerInfo(identity=identity)
    said.last_access_time.FromDatetime(START - timedelta(seconds=age))
    return said


@pytest.mark.parametrize(
    ("beat_age", "poll_age", "served"),
    [
        # Busy for ten minutes: it polls no more, and its heart beats.
        (5, 600, True),
        (11.9, 600, True),
        # Killed: within a quarter of a minute of its last sign of life.
        (12, 600, False),
        (12, 6, False),
        # Just started: its first heartbeat is due.
        (None, 0, True),
        (None, 5.9, True),
        (None, 6, False),
        (None, None, False),
    ],
)
def test_signs_of_life_count_for_some_seconds(
    beat_age: float | None, poll_age: float | None, served: bool
) -> None:
    beats = [] if beat_age is None else [beat("q", at=START - timedelta(seconds=beat_age))]
    polls = [] if poll_age is None else [poll(poll_age)]
    assert is_served(beats, polls, START) is served


@pytest.mark.parametrize("status", [SHUTTING_DOWN, SHUTDOWN])
def test_worker_that_is_stopping_takes_nothing_more(status: "WorkerStatus.ValueType") -> None:
    stopping = beat("q", status=status, at=START - timedelta(seconds=1))
    assert not is_served([stopping], [poll(2)], START)


def test_worker_that_is_started_again_under_the_same_name_serves() -> None:
    earlier = beat("q", status=SHUTTING_DOWN, at=START - timedelta(seconds=3))
    assert is_served([earlier], [poll(1)], START)
    assert is_served([earlier, beat("q")], [], START)


def test_one_of_many_is_enough() -> None:
    lost = [beat("q", identity=f"{n}@host", at=START - timedelta(hours=n)) for n in range(1, 9)]
    leaving = beat("q", identity="9@host", status=SHUTTING_DOWN)
    assert not is_served([*lost, leaving], [poll(60, "1@host")], START)
    assert is_served([*lost, leaving, beat("q", identity="10@host")], [], START)
    assert is_served([*lost, leaving], [poll(1, "10@host")], START)


def test_only_tasks_of_the_same_and_of_higher_priorities_are_ahead() -> None:
    queue = QueuePresence(is_served=True, backlog={1: 2, 5: 10, 6: 100})
    assert [queue.ahead_of(key) for key in (1, 4, 5, 10)] == [2, 2, 12, 112]
