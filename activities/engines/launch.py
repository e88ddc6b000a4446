"""Starting the process of an engine: its pipes, its environment, and its log."""

import asyncio
import logging
import os
import sys
from dataclasses import dataclass

from activities.engines import wire
from activities.errors import ErrorKind, WorkError

logger = logging.getLogger("darkroom.engine")

# A line that a library prints without an end must not fill the worker's memory.
_LONGEST_LOG_LINE = 64 * 1024


@dataclass(frozen=True)
class Pipe:
    """A pipe from the child: it writes to `child_end`, and what it wrote comes out of `stream`."""

    child_end: int
    stream: asyncio.StreamReader
    transport: asyncio.ReadTransport

    @classmethod
    async def open(cls) -> "Pipe":
        """Make one, to be read from at once."""
        own_end, child_end = os.pipe()
        stream = asyncio.StreamReader(limit=_LONGEST_LOG_LINE)
        try:
            transport, _ = await asyncio.get_running_loop().connect_read_pipe(
                lambda: asyncio.StreamReaderProtocol(stream), os.fdopen(own_end, "rb")
            )
        except BaseException:
            os.close(child_end)
            raise
        return cls(child_end, stream, transport)


async def spawn(engine: str, events: int, output: int) -> asyncio.subprocess.Process:
    """Start the engine named `module:Class`, which writes to the given ends of two pipes."""
    try:
        return await asyncio.create_subprocess_exec(
            *(sys.executable, "-u", "-m", "activities.engines.child", engine, str(events)),
            stdin=asyncio.subprocess.PIPE,
            stdout=output,
            stderr=output,
            pass_fds=(events,),
            # The child finds what the worker finds, wherever the worker was started.
            env={**os.environ, "PYTHONPATH": os.pathsep.join(map(os.path.abspath, sys.path))},
            # Ctrl-C is for the worker, which brings its jobs to a checkpoint first.
            start_new_session=True,
        )
    except OSError as error:
        reason = os.strerror(error.errno or 0)
        message = f"the engine's process could not start: {reason}"
        raise WorkError(ErrorKind.ENGINE_UNAVAILABLE, message) from error


async def copy_log(pid: int, stream: asyncio.StreamReader) -> None:
    """Pass on what the child prints, with the job that it was printed for."""
    job_id = "-"
    while True:
        try:
            line = await stream.readline()
        except ValueError:
            # Longer than the limit: asyncio has dropped it, and the next line can be read.
            logger.info("engine[%s] job[%s]: (a line that is too long)", pid, job_id)
            continue
        if not line:
            return
        if line.startswith(wire.LOG_MARK):
            job_id = line.removeprefix(wire.LOG_MARK).decode(errors="replace").strip()
        elif text := line.decode(errors="replace").rstrip():
            logger.info("engine[%s] job[%s]: %s", pid, job_id, text)
