"""What people read about a job in the Temporal Web UI and CLI, as Markdown where they render it."""

from workflows.job_record import JobRecord
from workflows.messages import Amendment, ImageJobInput
from workflows.state_machine import allowed_events

# The server refuses a longer summary; details may be fifty times as long.
_SUMMARY_BYTES = 180
_DETAILS_PROMPT_CHARACTERS = 2000


def static_summary(request: ImageJobInput) -> str:
    """One line that tells jobs apart in a list."""
    line = " ".join(request.parameters.prompt.split())
    return _shorten(f"{request.type} · {request.engine} · {line}", _SUMMARY_BYTES)


def static_details(job_id: str, request: ImageJobInput) -> str:
    """What was asked, for the top of the workflow's page."""
    parameters = request.parameters
    return "\n".join(
        [
            f"**Job** `{job_id}` of tenant `{request.tenant}`, priority {request.priority}",
            "",
            f"- size: {parameters.width} × {parameters.height} px, "
            f"{parameters.num_inference_steps} steps, guidance {parameters.guidance_scale:g}",
            f"- seed: `{parameters.seed}`",
            f"- prompt: {parameters.prompt[:_DETAILS_PROMPT_CHARACTERS]}",
        ]
    )


def attempt_summary(record: JobRecord, attempt: int) -> str:
    """One line for an attempt's event in the history."""
    of = f" of {record.request.max_attempts}" if record.request else ""
    checkpoint = record.status.checkpoint
    start = f", from step {checkpoint.step}" if checkpoint else ""
    return f"attempt {attempt}{of}{start}"


def current_details(record: JobRecord, refused: str | None) -> str:
    """State, reason, time, author and what is possible now."""
    lines = [f"**{record.state}** since {record.updated_at:%Y-%m-%d %H:%M:%S} UTC", ""]
    if record.transitions:
        last = record.transitions[-1]
        lines.append(f"- why: {last.message} ({last.event} by {last.source})")
    if record.status.pending_request:
        lines.append(f"- asked for and not yet carried out: {record.status.pending_request}")
    allowed = ", ".join(allowed_events(record.state)) or "nothing: this state is final"
    lines.append(f"- allowed now: {allowed}")
    if record.status.amendments:
        lines.append(f"- {_amended(record.status.amendments[-1])}")
    if refused:
        lines.append(f"- last refusal: {refused}")
    return "\n".join(lines)


def _amended(last: Amendment) -> str:
    told = {"priority": last.priority, "timeout_seconds": last.timeout_seconds}
    changed = ", ".join(f"{name} {value}" for name, value in told.items() if value is not None)
    why = f": {last.message}" if last.message else ""
    return f"last amended to {changed} by {last.source}{why}"


def _shorten(text: str, limit: int) -> str:
    data = text.encode()
    return text if len(data) <= limit else data[: limit - 3].decode(errors="ignore") + "…"
