"""Starting the process of an engine: its pipes and its environment."""

import asyncio
import contextlib
import os
import sys
from dataclasses import dataclass

from activities.engines.kin import marked
from activities.errors import ErrorKind, WorkError

# What the worker reads ahead of a consumer; beyond it, the child waits.
_READ_AHEAD = 64 * 1024


@dataclass(frozen=True)
class Pipe:
    """A pipe from the child: it writes to `child_end`, and what it wrote comes out of `stream`."""

    child_end: int
    stream: asyncio.StreamReader
    transport: asyncio.ReadTransport

    def close_child_end(self) -> None:
        """Once the child has it, so that the end of the child is the end of the stream."""
        os.close(self.child_end)

    def close(self) -> None:
        """Give the pipe up that no child was started for."""
        self.close_child_end()
        self.transport.close()

    @classmethod
    async def open(cls) -> "Pipe":
        """Make one, to be read from at once."""
        own_end, child_end = os.pipe()
        stream = asyncio.StreamReader(limit=_READ_AHEAD)
        try:
            transport, _ = await asyncio.get_running_loop().connect_read_pipe(
                lambda: asyncio.StreamReaderProtocol(stream), os.fdopen(own_end, "rb")
            )
        except BaseException:
            os.close(child_end)
            raise
        return cls(child_end, stream, transport)


def _environment(mark: str) -> dict[str, str]:
    """The child finds what the worker finds, wherever the worker was started.

    A slot is one core's work unless somebody says otherwise: threads of NumPy's own that wait for
    each other on a busy machine made some of it several times slower.
    """
    path = os.pathsep.join(map(os.path.abspath, sys.path))
    return {"OPENBLAS_NUM_THREADS": "1", **os.environ, "PYTHONPATH": path, **marked(mark)}


async def launch(engine: str, mark: str) -> tuple[asyncio.subprocess.Process, Pipe, Pipe]:
    """Start the engine named `module:Class`; returns the pipes of its events and its output too.

    By the mark all that it starts can be found again. Raises `WorkError`.
    """
    try:
        async with contextlib.AsyncExitStack() as undo:
            # One after another, because a start can be cancelled between them.
            events = await Pipe.open()
            undo.callback(events.close)
            output = await Pipe.open()
            undo.callback(output.close)
            process = await _spawn(engine, mark, events.child_end, output.child_end)
            undo.pop_all()
            events.close_child_end()
            output.close_child_end()
    # This process has no descriptor left, or the machine no process and no memory.
    except OSError as error:
        reason = os.strerror(error.errno or 0)
        message = f"the engine's process could not start: {reason}"
        raise WorkError(ErrorKind.ENGINE_UNAVAILABLE, message) from error
    return process, events, output


async def _spawn(engine: str, mark: str, events: int, output: int) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-u", "-m", "activities.engines.child", engine, str(events)),
        stdin=asyncio.subprocess.PIPE,
        stdout=output,
        stderr=output,
        pass_fds=(events,),
        env=_environment(mark),
        # Ctrl-C is for the worker, which brings its jobs to a checkpoint first.
        start_new_session=True,
    )
