"""The table: what the design says, spelled out, and nothing else."""

from itertools import product

import pytest

from workflows.state_machine import (
    TRANSITIONS,
    IllegalTransitionError,
    JobEvent,
    JobState,
    allowed_events,
    diagram,
    next_state,
)

DESIGNED = {
    ("PENDING", "START"): "PROCESSING",
    ("PENDING", "CANCEL"): "CANCELLED",
    ("PROCESSING", "COMPLETE"): "SUCCESS",
    ("PROCESSING", "FAIL"): "FAILED",
    ("PROCESSING", "CANCEL"): "CANCELLED",
    ("PROCESSING", "TIMEOUT"): "TIMEOUT_CANCELLED",
    ("PROCESSING", "PAUSE"): "PAUSED",
    ("PAUSED", "RESUME"): "PENDING",
    ("PAUSED", "CANCEL"): "CANCELLED",
    ("PROCESSING", "RETRY"): "PENDING",
    ("PENDING", "RETRY"): "PENDING",
    ("PENDING", "PAUSE"): "PAUSED",
    ("PENDING", "FAIL"): "FAILED",
    ("PENDING", "TIMEOUT"): "TIMEOUT_CANCELLED",
    ("PAUSED", "TIMEOUT"): "TIMEOUT_CANCELLED",
}
FINAL = {"SUCCESS", "FAILED", "CANCELLED", "TIMEOUT_CANCELLED"}
PAIRS = list(product(JobState, JobEvent))


def test_table_is_the_designed_one() -> None:
    assert {(str(s), str(e)): str(t) for (s, e), t in TRANSITIONS.items()} == DESIGNED


@pytest.mark.parametrize(("state", "event"), [pair for pair in PAIRS if pair in DESIGNED])
def test_legal_pair_leads_to_its_target(state: JobState, event: JobEvent) -> None:
    assert next_state(state, event) == DESIGNED[state, event]


@pytest.mark.parametrize(("state", "event"), [pair for pair in PAIRS if pair not in DESIGNED])
def test_illegal_pair_is_refused_with_state_and_what_is_allowed(
    state: JobState, event: JobEvent
) -> None:
    with pytest.raises(IllegalTransitionError) as caught:
        next_state(state, event)
    error, message = caught.value, str(caught.value)
    assert (error.state, error.event) == (state, event)
    allowed = [str(e) for e in JobEvent if (state, e) in DESIGNED]
    assert message.startswith(f"{event} is not allowed in {state}; allowed now: ")
    assert set(message.split("allowed now: ")[1].split(", ")) == (
        set(allowed) or {"nothing: this state is final"}
    )


def test_every_pair_was_tried() -> None:
    assert len(PAIRS) == 7 * 8
    assert len(DESIGNED) == 15


@pytest.mark.parametrize("state", JobState)
def test_final_states_are_those_that_accept_nothing(state: JobState) -> None:
    assert state.is_terminal == (state in FINAL)
    assert state.is_terminal == (allowed_events(state) == ())


def test_every_state_can_be_reached_from_the_first() -> None:
    reached = {JobState.PENDING}
    while new := {t for (s, _), t in TRANSITIONS.items() if s in reached} - reached:
        reached |= new
    assert reached == set(JobState)


def test_table_cannot_be_changed_while_running() -> None:
    with pytest.raises(TypeError):
        TRANSITIONS[JobState.SUCCESS, JobEvent.CANCEL] = JobState.CANCELLED  # type: ignore[index]


@pytest.mark.parametrize(("pair", "target"), DESIGNED.items())
def test_diagram_has_an_arrow_for_each_transition(pair: tuple[str, str], target: str) -> None:
    state, event = pair
    [arrow] = [line for line in diagram().splitlines() if f"{state} --> {target}:" in line]
    assert event in arrow.split(": ")[1].split(" / ")


def test_diagram_begins_at_pending_and_ends_in_the_final_states() -> None:
    lines = [line.strip() for line in diagram().splitlines()]
    assert lines[:2] == ["stateDiagram-v2", "[*] --> PENDING"]
    assert {line.split(" -->")[0] for line in lines if line.endswith("--> [*]")} == FINAL
    arrows = {(s, t) for (s, _), t in DESIGNED.items()}
    assert len(lines) == 2 + len(arrows) + len(FINAL)
