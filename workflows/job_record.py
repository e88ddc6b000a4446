"""The record of one job: the only place where its state changes.

Pure: the workflow brings the clock, and carries what `changed_memo` returns to the server.
One memo entry for each transition, so that a job's history grows linearly with its life.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from pydantic import TypeAdapter
from temporalio.api.common.v1 import Payload
from temporalio.converter import PayloadConverter

from workflows.messages import ImageJobInput, JobStatus, JobView
from workflows.state_machine import JobEvent, JobState, Transition, next_state

REQUEST_KEY = "request"
STATUS_KEY = "status"
_TRANSITION_PREFIX = "transition-"

_TRANSITION = TypeAdapter(Transition)


class JobRecord:
    """Request, status and transitions of one job."""

    def __init__(self, job_id: str, created_at: datetime, request: ImageJobInput | None) -> None:
        self.job_id = job_id
        self.created_at = created_at
        self.request = request
        self.status = JobStatus()
        self.transitions: list[Transition] = []
        self._told_transitions = 0
        self._told_status = self.status
        self._spent: dict[JobState, timedelta] = {}

    @property
    def asked(self) -> ImageJobInput:
        """The request; only a job that could be read gets as far as needing it."""
        if self.request is None:
            raise ValueError("the job's input could not be read")
        return self.request

    @property
    def priority(self) -> int:
        """The priority in force."""
        return self.status.priority_of(self.asked)

    @property
    def timeout_seconds(self) -> int:
        """The limit in force of the time in PROCESSING, over all attempts."""
        return self.status.timeout_of(self.asked)

    @property
    def state(self) -> JobState:
        """The state after the last transition."""
        return self.transitions[-1].to_state if self.transitions else JobState.PENDING

    @property
    def updated_at(self) -> datetime:
        """When the state last changed."""
        return self.transitions[-1].at if self.transitions else self.created_at

    def apply(self, event: JobEvent, *, at: datetime, source: str, message: str) -> None:
        """Record one transition, or raise `IllegalTransitionError` and change nothing."""
        target = next_state(self.state, event)
        self._spent[self.state] = self.spent_in(self.state, at)
        self.transitions.append(
            Transition(
                sequence=len(self.transitions) + 1,
                # A clock that was set back must not make a job's story run backwards.
                at=max(at, self.updated_at),
                from_state=self.state,
                to_state=target,
                event=event,
                source=source,
                message=message,
            )
        )

    def spent_in(self, state: JobState, now: datetime) -> timedelta:
        """How long the job has been in `state` over its whole life, never negative.

        In PENDING only the time counts in which the job could have started.
        """
        spent = self._spent.get(state, timedelta(0))
        if state is not self.state:
            return spent
        since = self.updated_at
        if state is JobState.PENDING and self.status.startable_at:
            since = max(since, self.status.startable_at)
        return spent + max(now - since, timedelta(0))

    def update(self, **changes: object) -> None:
        """Replace fields of the status."""
        self.status = self.status.model_copy(update=changes)

    @property
    def has_untold_attributes(self) -> bool:
        """Whether `changed_memo` would hand out what search attributes tell, too."""
        has_moved = self._told_transitions < len(self.transitions)
        return has_moved or self.status.priority != self._told_status.priority

    @property
    def told_transitions(self) -> int:
        """How many transitions `changed_memo` has handed out: what the world may know by now."""
        return self._told_transitions

    def changed_memo(self) -> dict[str, Any]:
        """What changed since this was last asked: memo entries, ready to be written."""
        fresh = self.transitions[self._told_transitions :]
        memo: dict[str, Any] = {f"{_TRANSITION_PREFIX}{t.sequence:04}": t for t in fresh}
        if self.status != self._told_status:
            memo[STATUS_KEY] = self.status
        self._told_transitions, self._told_status = len(self.transitions), self.status
        return memo

    def view(self) -> JobView:
        """The job as a whole."""
        return JobView(
            id=self.job_id,
            state=self.state,
            created_at=self.created_at,
            updated_at=self.updated_at,
            request=self.request,
            status=self.status,
            transitions=tuple(self.transitions),
        )


def initial_memo(request: ImageJobInput) -> dict[str, Any]:
    """What the memo holds before any worker has seen the job."""
    return {REQUEST_KEY: request, STATUS_KEY: JobStatus()}


def memo_corrections(
    request: ImageJobInput | None, memo: Mapping[str, Payload], converter: PayloadConverter
) -> dict[str, Any]:
    """What to write, so that the memo a job was started with says what its input says.

    Whoever starts a job by hand can give it any memo. Entries that it must not have become None.
    """
    said: dict[str, Any] = {k: None for k in memo if k == STATUS_KEY or _is_of_transition(k)}
    said |= initial_memo(request) if request else {REQUEST_KEY: None}
    return {key: value for key, value in said.items() if not _says(memo.get(key), value, converter)}


def _is_of_transition(key: str) -> bool:
    return key.startswith(_TRANSITION_PREFIX)


def _says(payload: Payload | None, value: Any, converter: PayloadConverter) -> bool:
    if payload is None or value is None:
        return payload is value
    try:
        # By value: another build may have written the same in other words.
        return bool(converter.from_payload(payload, type(value)) == value)
    # Converters raise what they like; what can't be read says something else.
    except Exception:  # noqa: BLE001
        return False


def record_from_memo(job_id: str, created_at: datetime, memo: Mapping[str, Any]) -> JobRecord:
    """Read a record back; the inverse of `initial_memo` and `changed_memo`.

    A job that was started by hand with an input that nobody could read has no request.
    """
    request = memo.get(REQUEST_KEY)
    record = JobRecord(
        job_id, created_at, ImageJobInput.model_validate(request) if request else None
    )
    record.status = JobStatus.model_validate(memo.get(STATUS_KEY, {}))
    record.transitions = [
        _TRANSITION.validate_python(memo[key]) for key in sorted(memo) if _is_of_transition(key)
    ]
    return record
