"""What people read: within the server's limits, whatever the prompt is."""

from uuid import uuid4

import pytest
from temporalio.client import Client

from activities.models import GenerationParameters
from tests.workflows.pure import Clock, checkpoint, claimed_job, image_request, loss, new_job
from workflows.ends import end_attempt
from workflows.messages import ImageJobInput
from workflows.presentation import (
    attempt_summary,
    current_details,
    static_details,
    static_summary,
)
from workflows.submission import start_job

PROMPTS = [
    "a lake",
    "🌄" * 8000,
    "金" * 8000,
    "é" * 91,
    "a\n\n  b\t" * 1000,
    "\u0000",
    "👩‍👩‍👧‍👦" * 1000,
]


def request_for(prompt: str) -> ImageJobInput:
    """The largest request with this prompt."""
    parameters = GenerationParameters(prompt=prompt, negative_prompt=prompt, seed=2**64 - 1)
    return image_request(parameters=parameters, tenant="t" * 64, engine=f"e{uuid4().hex}")


@pytest.mark.parametrize("prompt", PROMPTS)
async def test_summary_is_one_line_that_the_server_accepts(client: Client, prompt: str) -> None:
    request = request_for(prompt)
    summary = static_summary(request)
    assert len(summary.encode()) <= 180
    assert "\n" not in summary
    handle = await start_job(client, uuid4().hex, request, task_queue=f"nobody-{uuid4().hex}")
    description = await handle.describe()
    await handle.terminate()
    assert await description.static_summary() == summary
    assert await description.static_details() == static_details(handle.id[4:], request)


def test_short_summary_is_not_cut() -> None:
    assert static_summary(image_request()) == "TEXT_TO_IMAGE · procedural · a lake"


def test_long_summary_is_cut_between_characters() -> None:
    summary = static_summary(request_for("🌄" * 100))
    assert summary.endswith("🌄…")


def test_details_say_what_was_asked() -> None:
    details = static_details("x", image_request(priority=9))
    assert "`x` of tenant `default`, priority 9" in details
    assert "1024 × 1024 px, 30 steps, guidance 7.5" in details
    assert "seed: `7`" in details


def test_attempt_says_its_number_and_where_it_goes_on() -> None:
    job = claimed_job(Clock())
    assert attempt_summary(job.record, 1) == "attempt 1 of 3"
    end_attempt(job, loss(checkpoint=checkpoint(12)))
    assert attempt_summary(job.record, 2) == "attempt 2 of 3, from step 12"


def test_current_details_say_state_reason_author_and_what_is_possible() -> None:
    job = new_job(Clock())
    assert current_details(job.record, None).splitlines() == [
        "**PENDING** since 2026-01-01 00:00:00 UTC",
        "",
        "- allowed now: START, CANCEL, RETRY, PAUSE, FAIL, TIMEOUT",
    ]
    job = claimed_job(Clock())
    job.begin_pause()
    assert current_details(job.record, "RESUME was refused").splitlines() == [
        "**PROCESSING** since 2026-01-01 00:00:00 UTC",
        "",
        "- why: attempt 1 of 3 (START by worker:fake)",
        "- asked for and not yet carried out: pause",
        "- allowed now: COMPLETE, FAIL, CANCEL, TIMEOUT, PAUSE, RETRY",
        "- last refusal: RESUME was refused",
    ]
