"""Which activity does the work of which job type: a new type is one entry here."""

from dataclasses import dataclass

from activities.generation import GenerationActivities
from workflows.messages import ImageJobInput, generate_task_queue


@dataclass(frozen=True)
class WorkRoute:
    """The activity that does a job's work, by name, and the task queue of the workers that can."""

    activity: str
    task_queue: str


def work_route(request: ImageJobInput) -> WorkRoute:
    """Where a job's attempts go."""
    activity = GenerationActivities.generate_image.__name__
    return WorkRoute(activity, generate_task_queue(request.engine))
