"""What an engine's process prints, in the worker's log: with its job, and never too much of it."""

import asyncio
import logging
from dataclasses import dataclass

from activities.errors import one_line

logger = logging.getLogger("darkroom.engine")

# A line that a library prints without an end must not fill the worker's memory.
_LONGEST_LINE = 64 * 1024
# A progress bar and a traceback need a fraction of both; a loop that prints needs all there is.
_LINES_PER_SECOND = 200
_BYTES_PER_SECOND = 256 * 1024
# So little that looking through it delays nobody's heartbeat.
_CHUNK = 16 * 1024
# A child that prints without end is slowed down, and the worker keeps its time for its jobs.
_PAUSE_SECONDS = 0.02
# What is read may be some jobs behind what runs; a child that closed its output is so for ever.
_MOST_ANNOUNCED = 100


@dataclass
class _Budget:
    """What may still be logged in the second that ends at `until`."""

    until: float = 0.0
    lines: int = 0
    size: int = 0

    def takes(self, size: int, now: float) -> bool:
        """Spend one line of this size, if there is enough left."""
        if now >= self.until:
            self.until, self.lines, self.size = now + 1, _LINES_PER_SECOND, _BYTES_PER_SECOND
        if self.lines < 1 or self.size < size:
            return False
        self.lines -= 1
        self.size -= size
        return True


class ChildLog:
    """Passes on what one child prints. A line says which job follows, if it was announced."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._job_id = "-"
        self._announced: dict[bytes, str] = {}
        self._budget = _Budget()
        self._dropped = 0
        self._line = bytearray()
        self._line_is_too_long = False

    def expect(self, mark: str, job_id: str) -> None:
        """The next line that is exactly this mark begins the job's part."""
        self._announced[mark.encode()] = job_id
        if len(self._announced) > _MOST_ANNOUNCED:
            del self._announced[next(iter(self._announced))]

    async def copy(self, stream: asyncio.StreamReader) -> None:
        """Pass on all that comes, until its end."""
        while chunk := await stream.read(_CHUNK):
            dropped = self._dropped
            self._take(chunk)
            # Reading suspends only where nothing is there to be read: others have their turn here.
            await asyncio.sleep(_PAUSE_SECONDS if self._dropped > dropped else 0)
        self._end_line()
        self._tell_dropped()

    def _take(self, chunk: bytes) -> None:
        *ended, rest = chunk.split(b"\n")
        for piece in ended:
            self._add(piece)
            self._end_line()
        self._add(rest)

    def _add(self, piece: bytes) -> None:
        if len(self._line) + len(piece) > _LONGEST_LINE:
            self._line_is_too_long = True
            self._line.clear()
        elif not self._line_is_too_long:
            self._line += piece

    def _end_line(self) -> None:
        line, is_too_long = bytes(self._line), self._line_is_too_long
        self._line.clear()
        self._line_is_too_long = False
        if line in self._announced:
            self._tell_dropped()
            self._job_id = self._announced.pop(line)
        elif is_too_long:
            self._log(b"(a line that is too long)")
        elif line:
            self._log(line)

    def _log(self, line: bytes) -> None:
        loop = asyncio.get_running_loop()
        if not self._budget.takes(len(line), loop.time()):
            if not self._dropped:
                loop.call_at(self._budget.until, self._tell_dropped)
            self._dropped += 1
        elif text := one_line(line.decode(errors="replace")).strip():
            self._write(text)

    def _tell_dropped(self) -> None:
        if self._dropped:
            self._write(f"({self._dropped} lines dropped: too many at once)")
            self._dropped = 0

    def _write(self, text: str) -> None:
        logger.info("engine[%s] job[%s]: %s", self._pid, self._job_id, text)
