"""Jobs that a test brings to a moment of their lives, and holds there."""

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import httpx

from tests.end_to_end.stack import wait_until

GATED_ENGINE = "gated=tests.end_to_end.watched_engines:GatedEngine"
PICTURE: dict[str, Any] = {"prompt": "a lake", "width": 64, "height": 64, "seed": 1}
NOTHING: Mapping[str, object] = MappingProxyType({})

Job = dict[str, Any]


class GatedJobs:
    """The jobs of one stack, each with a name, and a gate of that name in the folder."""

    def __init__(self, api: httpx.Client, folder: Path) -> None:
        self.api = api
        self._folder = folder
        self._ids: dict[str, str] = {}

    def submit(
        self, name: str, steps: int, asked: Mapping[str, object] = NOTHING, **options: object
    ) -> Job:
        """Start one more job, with what else is asked; with `gate_after` it waits at its gate."""
        options |= {"gate": str(self._gate(name))}
        body = PICTURE | {"num_inference_steps": steps, "engine_options": options}
        answer = self.api.post("/v1/jobs", json=body | dict(asked))
        assert answer.status_code == 202, answer.text
        job: Job = answer.json()
        self._ids[name] = job["id"]
        return job

    def ask(self, name: str, wish: str) -> None:
        """Have it paused or resumed."""
        assert self.api.post(f"/v1/jobs/{self._ids[name]}/{wish}").is_success

    def read(self, name: str) -> Job:
        """The job as it is now, or what is said instead."""
        job: Job = self.api.get(f"/v1/jobs/{self._ids[name]}").json()
        return job

    def until(self, name: str, state: str, step: int = 0) -> Job:
        """The job once it is in the state and has done the step."""

        def is_there() -> bool:
            job = self.read(name)
            done = (job.get("progress") or {"step": 0})["step"]
            return job.get("state") == state and done >= step

        wait_until(f"{name} is {state} at step {step}", is_there, timeout=60)
        return self.read(name)

    def open_gate(self, name: str) -> None:
        """Let it go on, and see that it does."""
        gate = self._gate(name)
        gate.touch()
        wait_until(f"{name} goes on", gate.with_name(f"{gate.name}.passed").exists)

    def _gate(self, name: str) -> Path:
        return self._folder / f"gate-{name}"
