"""Every timeout, limit and retry policy, named, with its reason."""

import math
import random
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from types import MappingProxyType

from temporalio.common import RetryPolicy

from activities.errors import ErrorKind
from activities.models import FailureReport
from workflows.messages import MOST_TIMEOUT_SECONDS, ImageJobInput

# A worker that says nothing for this long is lost. Heartbeats come four times a second, so this
# leaves room for a dozen lost ones, and the next worker still starts within six seconds.
HEARTBEAT_TIMEOUT = timedelta(seconds=4)

# A frozen workflow worker holds a workflow task for this long before another worker gets it.
WORKFLOW_TASK_TIMEOUT = timedelta(seconds=5)

# The default of 10 s would let every cached job stand still that long after a worker was killed.
STICKY_QUEUE_TIMEOUT = timedelta(seconds=1)

# No job may be worked on for longer; its own limit can be raised up to this at any time.
LONGEST_PROCESSING = timedelta(seconds=MOST_TIMEOUT_SECONDS)

# A job that moved this recently when its time ran out is not stuck, only slow.
RECENT_PROGRESS = timedelta(seconds=40)
LIMIT_EXTENSION = timedelta(minutes=2)
MAX_EXTENSIONS = 5

# How long one execution of the work activity may take, if nobody else ends it. Not the job's own
# limit: Temporal takes no other for an activity that is scheduled, and a job's limit may be raised
# while it runs. The margin lets the watchdog, which looks at progress, decide first.
WORK_TIMEOUT = LONGEST_PROCESSING + LIMIT_EXTENSION * MAX_EXTENSIONS + timedelta(minutes=15)

TOTAL_PAUSE_LIMIT = timedelta(days=30)

# Each costs some thirty events; the bound keeps a job's history far from Temporal's limits.
MAX_PAUSES = 100
MAX_FREE_HAND_BACKS = 100

# Losses before a claim say nothing about the job, but a job must not be dispatched for ever.
MAX_UNCLAIMED_LOSSES = 10

# Nobody knows what a provider may answer; a job must neither wait for years nor trip over it.
LONGEST_RETRY_AFTER = timedelta(days=1)
HIGHEST_LOAD = 10.0

# Reads only, and the job goes on without an answer: a failed look extends the limit.
READ_IDLE_TIMEOUT = timedelta(seconds=5)
READ_IDLE_RETRY = RetryPolicy(maximum_attempts=2)

# Reads only; without an answer the loss counts as any other. It is asked right after an outage,
# when connections have yet to come back: some ten seconds of trying.
READ_LOSS_TIMEOUT = timedelta(seconds=5)
READ_LOSS_RETRY = RetryPolicy(
    initial_interval=timedelta(milliseconds=200),
    maximum_interval=timedelta(seconds=2),
    maximum_attempts=10,
)

# A silence that the server noticed later than this was its own: nobody was there to hear.
OUTAGE_SILENCE = HEARTBEAT_TIMEOUT + timedelta(seconds=2)

# Losses in an outage say nothing about the job, but a job must not be dispatched for ever.
MAX_OUTAGE_LOSSES = 20

# It does nothing, so that one which fails has served its purpose too.
LET_RESULTS_IN_TIMEOUT = timedelta(seconds=2)
LET_RESULTS_IN_RETRY = RetryPolicy(maximum_attempts=1)

# The archiver may have a month to catch up on; it heartbeats with every job, and goes on for ever.
ARCHIVE_TIMEOUT = timedelta(hours=6)
ARCHIVE_HEARTBEAT_TIMEOUT = timedelta(seconds=60)
ARCHIVE_RETRY = RetryPolicy(
    initial_interval=timedelta(seconds=5), maximum_interval=timedelta(minutes=5)
)

# Longer than the sender itself allows an exchange, so that only a lost worker reaches it.
CALLBACK_TIMEOUT = timedelta(seconds=30)

# The workflow decides when to try again: each attempt shall be seen.
CALLBACK_RETRY = RetryPolicy(maximum_attempts=1)

# How long to wait after each failed attempt: a restart takes seconds, a night's outage hours, and
# nobody looks at a weekend. Three days in all.
CALLBACK_INTERVALS = (
    timedelta(seconds=5),
    timedelta(seconds=30),
    timedelta(minutes=5),
    timedelta(minutes=30),
    timedelta(hours=2),
    timedelta(hours=5),
    timedelta(hours=10),
    timedelta(hours=14),
    timedelta(hours=20),
    timedelta(hours=20),
)

# So that receivers which failed together are not tried again together.
CALLBACK_JITTER = 0.1

# A receiver that asks for more time than this is not waited for.
LONGEST_CALLBACK_WAIT = timedelta(days=1)

# They wait for others nearly all of their time: the default of a hundred is full when a hundred
# receivers hang, and whoever comes next waits for them.
LIGHT_ACTIVITIES_AT_ONCE = 500

# Sending again can be asked for as often as anybody likes; each costs some ten events, and an entry
# of the memo. After so many it is sent in another run.
MAX_CALLBACK_ATTEMPTS = 100

# A bulk may have very many jobs to ask, and goes on for ever: it was accepted. A killed worker is
# missed soon, because heartbeats come whatever is being waited for.
BULK_TIMEOUT = timedelta(hours=24)
BULK_HEARTBEAT = timedelta(seconds=1)
# Where there is nothing new to tell; a late one or two are borne.
BULK_STILL_HEARTBEAT = timedelta(seconds=3)
BULK_HEARTBEAT_TIMEOUT = timedelta(seconds=10)
BULK_RETRY = RetryPolicy(
    initial_interval=timedelta(seconds=1), maximum_interval=timedelta(seconds=30)
)

# A call that hangs in one part of the server must not hold up a bulk for ever.
BULK_CALL_TIMEOUT = timedelta(seconds=20)

# Jobs asked at once by one worker, whatever the number of bulks. Each signal makes a workflow task,
# too: more at once were no faster on two cores, and leave others less room.
BULK_AT_ONCE = 8

# Visibility has to be quiet for this long before a bulk is done, though it usually tells of a job
# within milliseconds; and for longer where it was seen to be late.
BULK_QUIET = timedelta(seconds=10)
BULK_LONGEST_QUIET = timedelta(minutes=2)

# The workflow decides what follows a failed attempt, so that history says why each one ended.
WORK_RETRY = RetryPolicy(maximum_attempts=1)


@dataclass(frozen=True)
class AttemptPolicy:
    """What follows a failed attempt, for one kind of error.

    `max_attempts` bounds the failures of this kind; the job's own number bounds all of them.
    Intervals grow as
    `min(last × 2 × (1 + load), 300 s)`, where load is what the failing worker reported.
    """

    max_attempts: int = 10
    first_interval: timedelta = timedelta(seconds=2)
    longest_interval: timedelta = timedelta(seconds=300)

    def interval(self, failures: int, report: FailureReport, rng: random.Random) -> timedelta:
        """The wait after the `failures`-th failed attempt (1 for the first), with jitter.

        A provider's own `Retry-After` wins, within a day.
        """
        asked = report.retry_after_seconds
        if asked is not None and not math.isnan(asked):
            return timedelta(seconds=min(max(0.0, asked), LONGEST_RETRY_AFTER.total_seconds()))
        load = min(max(0.0, report.load), HIGHEST_LOAD)
        growth: float = (2 * (1 + load)) ** (failures - 1)
        seconds = min(
            self.first_interval.total_seconds() * growth, self.longest_interval.total_seconds()
        )
        return timedelta(seconds=seconds * rng.uniform(0.8, 1.0))


_ONCE = AttemptPolicy(max_attempts=1)
_DEFAULT_POLICY = AttemptPolicy()

ATTEMPT_POLICIES: Mapping[ErrorKind, AttemptPolicy] = MappingProxyType(
    {
        **{kind: _ONCE if kind.is_permanent else _DEFAULT_POLICY for kind in ErrorKind},
        # Two attempts: a neighbour may have taken the memory once; the same size twice is a size.
        ErrorKind.OUT_OF_MEMORY: AttemptPolicy(max_attempts=2),
        # The work goes to another worker, which has no part in the loss: nothing to wait for.
        ErrorKind.WORKER_LOST: AttemptPolicy(first_interval=timedelta(0)),
        # Providers count their limits by the minute.
        ErrorKind.RATE_LIMITED: AttemptPolicy(first_interval=timedelta(seconds=10)),
    }
)


def execution_timeout(request: ImageJobInput, delay: timedelta) -> timedelta:
    """The sum of all limits plus a day: only a job whose workflow can't run reaches it.

    It is fixed at the start, and the limit of the processing time isn't: the highest counts.
    """
    waits = LONGEST_RETRY_AFTER * request.max_attempts
    return (
        delay
        + request.queue_timeout
        + LONGEST_PROCESSING
        + LIMIT_EXTENSION * MAX_EXTENSIONS
        + TOTAL_PAUSE_LIMIT
        + waits
        + timedelta(days=1)
    )
