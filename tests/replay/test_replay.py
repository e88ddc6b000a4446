"""Every history that was ever recorded must replay with the workflow as it is now."""

import json
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path

import pytest
from temporalio import workflow
from temporalio.client import WorkflowHistory
from temporalio.common import RawValue
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.worker import Replayer

with workflow.unsafe.imports_passed_through():
    from tests.replay.record import HISTORIES, IDENTITY, LIVES
    from workflows.bulk import BulkWorkflow
    from workflows.delivery import CallbackWorkflow
    from workflows.image_job import ImageJobWorkflow
    from workflows.messages import JobOutcome

RECORDED = sorted(HISTORIES.glob("*.json"))


def read_history(path: Path) -> WorkflowHistory:
    """A recorded history."""
    text = path.read_text()
    started = json.loads(text)["events"][0]["workflowExecutionStartedEventAttributes"]
    return WorkflowHistory.from_json(started["workflowId"], text)


async def replay(history: WorkflowHistory, *workflow_classes: type) -> None:
    """Run the workflow of a history over it; raises unless it decides the same again."""
    replayer = Replayer(workflows=workflow_classes, data_converter=pydantic_data_converter)
    await replayer.replay_workflow(history)


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.stem)
async def test_recorded_life_replays(path: Path) -> None:
    await replay(read_history(path), ImageJobWorkflow, CallbackWorkflow, BulkWorkflow)


def test_each_kind_of_life_is_recorded() -> None:
    assert {life.__name__ for life in LIVES} <= {path.stem for path in RECORDED}


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.stem)
def test_history_tells_nothing_of_the_machine_that_recorded_it(path: Path) -> None:
    identities = {
        value
        for event in json.loads(path.read_text())["events"]
        for attributes in event.values()
        if isinstance(attributes, dict)
        for key, value in attributes.items()
        if key == "identity"
    }
    assert identities <= {IDENTITY, "history-service"}


@workflow.defn(dynamic=True)
class SleepingFirstWorkflow(ImageJobWorkflow):
    """The workflow, changed in a way that running jobs would not survive."""

    @workflow.init
    def __init__(self, args: Sequence[RawValue]) -> None:
        super().__init__(args)

    @workflow.run
    async def run(self, args: Sequence[RawValue]) -> JobOutcome:
        """Sleep before anything else."""
        await workflow.sleep(timedelta(seconds=1))
        return await super().run(args)


@pytest.mark.parametrize("name", ["success", "unreadable", "cancelled", "handed_back"])
async def test_change_that_breaks_running_jobs_is_noticed(name: str) -> None:
    with pytest.raises(workflow.NondeterminismError):
        await replay(read_history(HISTORIES / f"{name}.json"), SleepingFirstWorkflow)
