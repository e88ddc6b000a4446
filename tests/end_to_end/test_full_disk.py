"""The artifact store's disk is full: jobs say so, nothing is left on it, and later all is well."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from activities.declarations import declaration_key
from tests.end_to_end.small_disk import SmallDisk, way_to_mount
from tests.end_to_end.stack import REAL, Stack, free_port, running, wait_until

pytestmark = [
    pytest.mark.timeout(170),
    pytest.mark.skipif(sys.platform != "linux", reason="mounts a file system of its own"),
]

PAGE = 4096
DECLARATION = f"store/{declaration_key('procedural')}"
SMALL = {"prompt": "a lake", "width": 64, "height": 64, "num_inference_steps": 2}


@pytest.fixture
def disk_folder(tmp_path: Path) -> Path:
    """Where the small disk will be."""
    folder = tmp_path / "disk"
    folder.mkdir()
    return folder


@pytest.fixture
def stack(tmp_path: Path, disk_folder: Path) -> Iterator[Stack]:
    """A stack whose store, and nothing else, is on the small disk."""
    way = way_to_mount(disk_folder)
    if way is None:
        pytest.skip("this kernel lets nobody here mount a file system in a namespace of their own")
    settings = {
        "DARKROOM_STORE_URL": (disk_folder / "store").as_uri(),
        "DARKROOM_HEALTH_PORT": str(free_port()),
        # So that there is one file for each job.
        "DARKROOM_VISIBLE_LABEL": "off",
    }
    with running(Stack(tmp_path / "data", command=(*way, *REAL), extra=settings)) as started:
        started.wait_until_ready()
        yield started
        assert started.stop() == 0
    assert started.pids() == []


@pytest.fixture
def disk(stack: Stack, disk_folder: Path) -> SmallDisk:
    """The disk as the stack sees it, once the worker has written what no job asked for."""
    small = SmallDisk(disk_folder, stack.process.pid)
    wait_until("the engine is declared", lambda: small.files() == [DECLARATION])
    return small


@pytest.fixture
def api(stack: Stack) -> Iterator[httpx.Client]:
    """A client of that stack."""
    with httpx.Client(base_url=stack.api_url, timeout=30) as client:
        yield client


def ended(api: httpx.Client, attempts: int) -> dict[str, Any]:
    """A job of a small picture, once it is over."""
    job = api.post("/v1/jobs", json=SMALL | {"max_attempts": attempts}).json()
    wait_until("it is over", lambda: bool(read(api, job["id"])["done"]), timeout=60)
    return read(api, job["id"])


def read(api: httpx.Client, job_id: str) -> dict[str, Any]:
    job: dict[str, Any] = api.get(f"/v1/jobs/{job_id}").json()
    return job


def assert_failed_for_want_of_space(job: dict[str, Any]) -> None:
    """In words that a user understands."""
    assert job["state"] == "FAILED", job
    assert job["error"] == {
        "kind": "STORAGE",
        "message": "the artifact store could not be written: No space left on device",
        "retryable": True,
    }


def test_a_full_disk_fails_jobs_with_its_reason_until_there_is_space_again(
    stack: Stack, disk: SmallDisk, api: httpx.Client
) -> None:
    served_by = stack.pids("worker.py")
    before = disk.free_bytes
    disk.fill()
    assert disk.free_bytes == 0
    ready = api.get("/readyz")
    parts = {"ready": False, "temporal": True, "store": False}
    assert (ready.status_code, ready.json()) == (503, parts)
    worker = f"http://127.0.0.1:{stack.extra['DARKROOM_HEALTH_PORT']}/readyz"
    assert httpx.get(worker).status_code == 503
    job = ended(api, attempts=2)
    assert_failed_for_want_of_space(job)
    assert [t["event"] for t in job["transitions"]] == ["START", "RETRY", "START", "FAIL"]
    assert disk.files() == [DECLARATION]
    disk.free()
    assert disk.free_bytes == before
    assert api.get("/readyz").status_code == httpx.get(worker).status_code == 200
    job = ended(api, attempts=1)
    assert job["state"] == "SUCCESS", job
    assert api.get(f"/v1/jobs/{job['id']}/image").status_code == 200
    assert stack.pids("worker.py") == served_by


def test_an_image_that_fits_the_disk_by_half_leaves_nothing_of_itself(
    stack: Stack, disk: SmallDisk, api: httpx.Client
) -> None:
    fits = ended(api, attempts=1)
    kept = disk.files()
    assert {Path(name).stem for name in kept} == {"procedural", fits["result"]["sha256"]}
    assert DECLARATION in kept
    assert fits["result"]["byte_size"] > PAGE
    disk.fill(leave=PAGE)
    assert_failed_for_want_of_space(ended(api, attempts=1))
    assert disk.files() == kept
    # Nor is a file held open that has no name.
    assert disk.free_bytes == PAGE
