"""A worker that stands still until its job was given away, and then goes on, changes nothing."""

import os
import signal
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.end_to_end.stack import Stack, running, wait_until
from tests.processes import freeze

pytestmark = [
    pytest.mark.timeout(170),
    pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc"),
]

# Long enough to be frozen in the middle, and to write checkpoints.
LONG = {"prompt": "a lighthouse", "width": 1024, "height": 1024, "num_inference_steps": 150}


def _job(api: httpx.Client, job_id: str) -> dict[str, Any]:
    job: dict[str, Any] = api.get(f"/v1/jobs/{job_id}").json()
    return job


def _files(stack: Stack, job_id: str) -> list[str]:
    artifacts = stack.data_dir / "artifacts"
    found = [*artifacts.glob(f"jobs/{job_id}/*"), *artifacts.glob(f"checkpoints/{job_id}/*")]
    return sorted(str(path.relative_to(artifacts)) for path in found)


def test_a_worker_that_was_frozen_until_its_job_was_done_elsewhere_changes_nothing(
    tmp_path: Path,
) -> None:
    stack = Stack(tmp_path / "data")
    with running(stack), httpx.Client(base_url=stack.api_url, timeout=70) as api:
        stack.wait_until_ready()
        extra = stack.start_worker()
        job_id = api.post("/v1/jobs", json=LONG | {"seed": 1}).json()["id"]
        wait_until("a checkpoint", lambda: len(_files(stack, job_id)) > 0, timeout=60)
        frozen = int(_job(api, job_id)["worker"].split("@")[0])
        freeze(frozen)
        wait_until("another attempt", lambda: _job(api, job_id)["attempt"] == 2, timeout=40)
        while not _job(api, job_id)["done"]:
            api.get(f"/v1/jobs/{job_id}", params={"wait": 30})
        done, files = _job(api, job_id), _files(stack, job_id)
        os.kill(frozen, signal.SIGCONT)
        # It is awake, and through with its old attempt, once its scratch folder is empty again.
        scratch = stack.data_dir / "tmp"
        wait_until(
            "the old attempt is over",
            lambda: not list(scratch.glob(f"worker-{frozen}-*/{job_id}-*")),
            timeout=30,
        )
        assert _job(api, job_id) == done
        assert _files(stack, job_id) == files
        assert done["state"] == "SUCCESS"
        retry = done["transitions"][1]
        assert (retry["event"], retry["source"]) == ("RETRY", "watchdog")
        assert len([name for name in files if name.startswith("jobs/")]) == 1
        again = api.post("/v1/jobs", json=LONG | {"seed": 1}).json()["id"]
        while not _job(api, again)["done"]:
            api.get(f"/v1/jobs/{again}", params={"wait": 30})
        assert _job(api, again)["result"]["sha256"] == done["result"]["sha256"]
        extra.terminate()
        extra.wait(60)
        assert stack.stop() == 0
