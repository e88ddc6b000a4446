from temporalio.worker import Worker
from tests.workflows.behaviours import *
from workflows.state_machine import JobState
from workflows.image_job import ImageJobWorkflow
from activities.watchdog import WatchdogActivities
import time
async def test_x(stage):
    async with stage.deciding(), stage.working(stage.work(work_until_stopped)):
      for _ in range(5):
        handle = await stage.start()
        await stage.until(handle, JobState.PROCESSING, lambda v: v.status.progress is not None)
        t=time.monotonic()
        await handle.signal("cancel")
        assert (await handle.result()).state is JobState.CANCELLED
        print("LA:", time.monotonic()-t)
async def test_y(stage):
    async with Worker(stage.client, task_queue=stage.task_queue, workflows=[ImageJobWorkflow], activities=[WatchdogActivities(stage.client).read_idle_seconds]), stage.working(stage.work(work_until_stopped)):
        handle = await stage.start()
        await stage.until(handle, JobState.PROCESSING, lambda v: v.status.progress is not None)
        t=time.monotonic()
        await handle.signal("cancel")
        assert (await handle.result()).state is JobState.CANCELLED
        print("no LA:", time.monotonic()-t)
