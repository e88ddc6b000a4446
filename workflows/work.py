"""Which activity does the work of which job type: a new type is one entry here."""

from dataclasses import dataclass
from typing import Any

from activities.generation import GenerationActivities
from workflows.messages import ImageJobInput, generate_task_queue


@dataclass(frozen=True)
class WorkRoute:
    """The activity that does a job's work, and the task queue of the workers that can."""

    activity: Any
    task_queue: str


def work_route(request: ImageJobInput) -> WorkRoute:
    """Where a job's attempts go."""
    return WorkRoute(GenerationActivities.generate_image, generate_task_queue(request.engine))
