"""What must hold of every job after any chaos, and what must not be left behind."""

import asyncio
import hashlib
import json
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Protocol

import httpx
from temporalio.client import Client

from activities.engines.procedural import ProceduralEngine
from activities.imaging.removal import Pristine, restore_own
from activities.models import GenerationParameters
from tests.end_to_end.stack import Stack
from tests.end_to_end.undisturbed import made_undisturbed
from workflows.names import job_id_of
from workflows.state_machine import TRANSITIONS, JobEvent, JobState

Json = dict[str, Any]
CLEAN_SECONDS = 90.0


class Planned(Protocol):
    """What a job was asked."""

    request: Json


@dataclass
class Violations:
    """What was checked, and what was found broken."""

    checked: int = 0
    broken: list[str] = field(default_factory=list)
    states: Counter[str] = field(default_factory=Counter)
    events: Counter[str] = field(default_factory=Counter)

    def expect(self, holds: bool, what: str) -> None:
        """Note one invariant."""
        self.checked += 1
        if not holds:
            self.broken.append(what)

    def report(self) -> str:
        """The findings, for people."""
        found = "\n".join(f"  BROKEN: {what}" for what in self.broken) or "  nothing is broken"
        return (
            f"final states: {dict(self.states)}\ntransitions: {dict(self.events)}\n"
            f"{self.checked} checks:\n{found}"
        )


async def known_jobs(stack: Stack) -> set[str]:
    """All jobs that Temporal knows, also those whose submitter never heard of them."""
    client = await Client.connect(stack.temporal_address)
    return {
        job_id_of(row.id) or ""
        async for row in client.list_workflows('WorkflowType="ImageJobWorkflow"')
    }


async def check_jobs(
    api: httpx.AsyncClient, known: set[str], plans: Mapping[str, Planned], cancelled: set[str]
) -> Violations:
    """Check every job."""
    violations = Violations()
    violations.expect(set(plans) <= known, f"lost: {sorted(set(plans) - known)}")
    for job_id in sorted(known):
        job = (await api.get(f"/v1/jobs/{job_id}", params={"wait": 60})).json()
        check_story(violations, job, job_id in cancelled)
        check_chain(violations, job, known)
        await check_image(violations, api, job)
    return violations


def check_story(violations: Violations, job: Json, may_be_cancelled: bool) -> None:
    """One final state, reached by legal transitions in order."""
    name = f"job {job['id']}"
    violations.states[job["state"]] += 1
    violations.expect(job["done"], f"{name} is final, not {job['state']}")
    allowed = ["SUCCESS", *(["CANCELLED"] if may_be_cancelled else [])]
    violations.expect(
        job["state"] in allowed or was_killed_twice(job),
        f"{name} ended as {job['state']}: {job['error']}",
    )
    state, at = JobState.PENDING, job["created_at"]
    for number, transition in enumerate(job["transitions"], 1):
        violations.events[transition["event"]] += 1
        legal = TRANSITIONS.get((state, JobEvent(transition["event"])))
        violations.expect(transition["sequence"] == number, f"{name}: sequence {transition}")
        violations.expect(transition["from_state"] == state, f"{name}: from {transition}")
        violations.expect(transition["to_state"] == legal, f"{name}: illegal {transition}")
        violations.expect(at <= transition["at"], f"{name}: time runs backwards at {transition}")
        state, at = JobState(transition["to_state"]), transition["at"]
    violations.expect(state == job["state"], f"{name}: {job['state']} after {state}")


def check_chain(violations: Violations, job: Json, known: set[str]) -> None:
    """A successor if and only if one was asked for and there is an image to be freed of its label.

    What was read of the chain is read once more from the successor itself, as any job is.
    """
    name, is_removal = f"job {job['id']}", job["type"] == "WATERMARK_REMOVAL"
    wanted = job["request"]["watermark"] == "remove" and not is_removal
    expected = f"{job['id']}-removal" if wanted and job["state"] == "SUCCESS" else None
    violations.expect(job["successor_id"] == expected, f"{name}: followed by {job['successor_id']}")
    has_one = f"{job['id']}-removal" in known
    violations.expect(has_one is (expected is not None), f"{name}: a successor is there: {has_one}")
    ends = {"FINALIZED", "REMOVAL_FAILED"} if is_removal or expected else {None}
    violations.expect(job["chain"] in ends, f"{name}: the chain is {job['chain']}")


def was_killed_twice(job: Json) -> bool:
    """Whether its engine was killed twice, which reads as a job too large for the memory."""
    deaths = [t for t in job["transitions"] if "killed by signal 9" in t["message"]]
    return job["state"] == "FAILED" and len(deaths) == 2


async def check_image(violations: Violations, api: httpx.AsyncClient, job: Json) -> None:
    """SUCCESS if and only if there are bytes, the recorded ones, those of an undisturbed run."""
    name = f"job {job['id']}"
    answer = await api.get(f"/v1/jobs/{job['id']}/image")
    if job["state"] != "SUCCESS":
        violations.expect(answer.status_code == 409, f"{name}: an image of {job['state']}")
        return
    violations.expect(answer.status_code == 200, f"{name}: no image: {answer.text[:200]}")
    sha256 = hashlib.sha256(answer.content).hexdigest()
    violations.expect(sha256 == job["result"]["sha256"], f"{name}: other bytes than recorded")
    parameters = {k: v for k, v in job["request"].items() if k in GenerationParameters.model_fields}
    labelled, clean = await asyncio.to_thread(undisturbed, json.dumps(parameters, sort_keys=True))
    expected = clean if job["type"] == "WATERMARK_REMOVAL" else labelled
    violations.expect(sha256 == expected, f"{name}: other bytes than undisturbed")


@cache
def undisturbed(parameters: str) -> tuple[str, str]:
    """The sha256 of what is handed out when nobody disturbs it, and of its copy without label."""
    asked = GenerationParameters.model_validate_json(parameters)
    finished = made_undisturbed(ProceduralEngine(), "procedural", asked)
    if finished.covered is None:
        raise RuntimeError("no label was drawn")
    pristine = Pristine(finished.covered.box, finished.covered.file)
    clean = restore_own(finished.data, "image/png", pristine)
    labelled, unlabelled = (hashlib.sha256(one).hexdigest() for one in (finished.data, clean.data))
    return labelled, unlabelled


async def check_leftovers(stack: Stack, violations: Violations) -> None:
    """No temporary file, no checkpoint, nothing but what counts, soon after the last job."""
    deadline = time.monotonic() + CLEAN_SECONDS
    while (left := leftovers(stack.data_dir)) and time.monotonic() < deadline:
        await asyncio.to_thread(_trigger_archiver, stack)
        await asyncio.sleep(1)
    violations.expect(not left, f"left behind: {left[:10]} and {max(0, len(left) - 10)} more")


def leftovers(data_dir: Path) -> list[str]:
    """Files that nobody needs any more, below the data folder."""
    artifacts = data_dir / "artifacts"
    found = [path for path in (artifacts / "checkpoints").rglob("*") if path.is_file()]
    found += [path for path in artifacts.rglob(".*") if path.is_file()]
    found += (data_dir / "tmp").glob("worker-*/*")
    for folder in (artifacts / "pristine").glob("*"):
        kept = artifacts / "jobs" / folder.name
        found += [path for path in folder.iterdir() if not [*kept.glob("*.png")]]
    for folder in (artifacts / "jobs").glob("*"):
        images = [path for path in folder.iterdir() if path.name != "job.json"]
        found += [] if (folder / "job.json").is_file() else [folder / "job.json is missing"]
        found += images[1:]
    return sorted(str(path.relative_to(data_dir)) for path in found)


def _trigger_archiver(stack: Stack) -> None:
    program = str(Path(sys.executable).with_name("temporal"))
    command = (program, "schedule", "trigger", "--schedule-id", "darkroom-archiver")
    subprocess.run(
        [*command, "--address", stack.temporal_address], capture_output=True, timeout=30, check=True
    )
