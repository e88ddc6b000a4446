"""`make run`: everything on one machine - the Temporal server, one worker, the API."""

import signal

if __name__ == "__main__":
    # Ctrl-C while the rest is imported ends us without a traceback; main() takes over then.
    signal.signal(signal.SIGINT, signal.SIG_DFL)

import asyncio
import ctypes
import os
import sys
from pathlib import Path

from devstack import temporal
from devstack.console import DevError, say
from devstack.parts import Check, Command, Part
from devstack.settings import Settings, check_ports, locked
from devstack.stack import Guard, Stack, StopRequest

PROJECT = Path(__file__).resolve().parent
WORKER: Command = (sys.executable, str(PROJECT / "worker.py"))
API: Command = (sys.executable, "-m", "api")
BIN = Path(sys.executable).parent
ANSWER_SECONDS = 2.0


def main(worker: Command = WORKER, api: Command = API) -> int:
    """Run the stack until it is asked to stop; returns the exit code."""
    # Until the event loop listens, every wish to stop ends in the `except` below.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)
    try:
        _end_with_make()
        settings = Settings.from_environ(os.environ)
        with locked(settings.data_dir) as lock:
            check_ports(settings)
            temporal.discard_half_made_database(settings.data_dir)
            return asyncio.run(_run(settings, _parts(settings, worker, api), lock))
    except KeyboardInterrupt:
        return 0
    except DevError as error:
        print(f"make run: {error}", file=sys.stderr, flush=True)
        return error.exit_code


async def _run(settings: Settings, parts: list[Part], lock: int) -> int:
    stop = StopRequest()
    stop.listen()
    guard = Guard(lock)
    say("starting the Temporal server, the worker and the API")
    try:
        await Stack(parts, guard).run(stop, lambda: say(_welcome(settings)))
    finally:
        guard.dismiss()
    say("killed" if stop.hurry.is_set() else "stopped")
    return 1 if stop.hurry.is_set() else 0


def _parts(settings: Settings, worker: Command, api: Command) -> list[Part]:
    env = _environment(settings)
    executable = temporal.executable()

    def part(name: str, command: Command, cwd: Path, grace: float, is_ready: Check) -> Part:
        return Part(name, command, cwd, env, settings.logs / f"{name}.log", grace, is_ready)

    return [
        # In the data folder, so that the database has a plain name: the server reads `?`, `#` and
        # `%` in a path as parts of a URL, and would quietly use another file.
        part(
            "temporal",
            temporal.server_command(executable, settings),
            settings.data_dir,
            10.0,
            temporal.is_serving(executable, settings, env),
        ),
        # The worker has its grace for the jobs, and then some time to leave.
        part(
            "worker",
            worker,
            PROJECT,
            settings.grace_seconds + 10.0,
            _http_ready("127.0.0.1", settings.health_port),
        ),
        part("api", api, PROJECT, 10.0, _http_ready(settings.api_address, settings.api_port)),
    ]


def _environment(settings: Settings) -> dict[str, str]:
    """Ours for all parts. A TEMPORAL_* of the user, say an API key, belongs to another server."""
    inherited = {name: v for name, v in os.environ.items() if not name.startswith("TEMPORAL_")}
    return inherited | {
        "PYTHONUNBUFFERED": "1",
        "TEMPORAL_ADDRESS": settings.temporal_address,
        "TEMPORAL_NAMESPACE": "default",
        "DARKROOM_DATA_DIR": str(settings.data_dir),
        "DARKROOM_API_HOST": settings.api_host,
        "DARKROOM_API_PORT": str(settings.api_port),
        "DARKROOM_HEALTH_PORT": str(settings.health_port),
        "DARKROOM_GRACE_SECONDS": f"{settings.grace_seconds:g}",
    }


def _http_ready(host: str, port: int) -> Check:
    """Ready once GET /readyz answers 200."""

    async def ask() -> bool:
        reader, writer = await asyncio.open_connection(host, port)
        try:
            writer.write(b"GET /readyz HTTP/1.1\r\nHost: darkroom\r\nConnection: close\r\n\r\n")
            return b" 200 " in await reader.readline()
        finally:
            writer.close()

    async def is_ready() -> bool:
        try:
            # Not wait_for(), which can swallow a cancellation before Python 3.12.
            async with asyncio.timeout(ANSWER_SECONDS):
                return await ask()
        except (OSError, TimeoutError):  # not up yet
            return False

    return is_ready


def _end_with_make() -> None:
    """Under make, take the death of make for a request to stop (Linux); else we would run on."""
    if sys.platform == "linux" and "MAKELEVEL" in os.environ:
        set_parent_death_signal = 1
        ctypes.CDLL(None).prctl(set_parent_death_signal, signal.SIGTERM)


def _welcome(settings: Settings) -> str:
    jobs = f"{settings.api_url}/v1/jobs"
    curl = "curl -s" + (' -H "Authorization: Bearer $KEY"' if settings.has_keys else "")
    take_id = """python3 -c 'import json, sys; print(json.load(sys.stdin)["id"])'"""
    return f"""
Darkroom is running; Ctrl-C stops it.

  API      {settings.api_url}  (described at {settings.api_url}/docs)
  Web UI   http://127.0.0.1:{settings.temporal_ui_port}
  data     {settings.data_dir}
  logs     {settings.logs}

Submit a job, look at it, and fetch the picture once it is there:

  JOB=$({curl} {jobs} -H 'Content-Type: application/json' \\
        -d '{{"prompt": "a lighthouse at dusk"}}' | {take_id})
  {curl} {jobs}/$JOB
  until {curl} -f -o picture.png {jobs}/$JOB/image; do sleep 1; done

For the temporal program, and for more workers by hand:

  export PATH="{BIN}:$PATH" TEMPORAL_ADDRESS={settings.temporal_address}
  export DARKROOM_DATA_DIR="{settings.data_dir}"
"""


if __name__ == "__main__":
    sys.exit(main())
