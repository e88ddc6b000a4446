"""Which activity does the work of which job type: a new type is one entry here."""

from dataclasses import dataclass

from activities.generation import GenerationActivities
from activities.watermark import WatermarkActivities
from workflows.messages import ImageJobInput
from workflows.names import POSTPROCESS_TASK_QUEUE, generate_task_queue


@dataclass(frozen=True)
class WorkRoute:
    """The activity that does a job's work, by name, and the task queue of the workers that can.

    `purpose` completes "no worker …" for a reader.
    """

    activity: str
    task_queue: str
    purpose: str


def work_route(request: ImageJobInput) -> WorkRoute:
    """Where a job's attempts go."""
    if request.type == "WATERMARK_REMOVAL":
        activity = WatermarkActivities.remove_watermark.__name__
        return WorkRoute(activity, POSTPROCESS_TASK_QUEUE, "removes labels")
    activity = GenerationActivities.generate_image.__name__
    queue = generate_task_queue(request.engine)
    return WorkRoute(activity, queue, f"serves the engine {request.engine}")
