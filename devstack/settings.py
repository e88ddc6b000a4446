"""What the environment says about this run, and whether this machine has room for it."""

import errno
import fcntl
import os
import secrets
import socket
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from devstack.console import DevError, say
from devstack.guard import is_running

LOCK_WAIT_SECONDS = 60.0


@dataclass(frozen=True)
class Settings:
    """What the environment says about this run."""

    data_dir: Path
    api_host: str
    api_port: int
    temporal_port: int
    temporal_ui_port: int
    health_port: int
    grace_seconds: float

    @classmethod
    def from_environ(cls, environ: Mapping[str, str]) -> "Settings":
        """Raises DevError, which names the variable, for a value that cannot be used."""
        return cls(
            data_dir=Path(environ.get("DARKROOM_DATA_DIR") or "data").absolute(),
            api_host=environ.get("DARKROOM_API_HOST") or "127.0.0.1",
            api_port=_port(environ, "DARKROOM_API_PORT", 8000),
            temporal_port=_port(environ, "DARKROOM_TEMPORAL_PORT", 7233),
            temporal_ui_port=_port(environ, "DARKROOM_TEMPORAL_UI_PORT", 8233),
            health_port=_port(environ, "DARKROOM_HEALTH_PORT", 0) or _unused_port(),
            grace_seconds=_seconds(environ, "DARKROOM_GRACE_SECONDS", 20.0),
        )

    @property
    def api_address(self) -> str:
        """Host for a client on this machine, also when the API listens on every interface."""
        return {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(self.api_host, self.api_host)  # noqa: S104

    @property
    def api_url(self) -> str:
        """Where the API answers a client on this machine."""
        host = f"[{self.api_address}]" if ":" in self.api_address else self.api_address
        return f"http://{host}:{self.api_port}"

    @property
    def temporal_address(self) -> str:
        """Where the server answers the worker and the API."""
        return f"127.0.0.1:{self.temporal_port}"

    @property
    def has_keys(self) -> bool:
        """Whether the API asks for one, as far as the data folder tells."""
        return any((self.data_dir / "artifacts" / "config" / "keys").glob("*.json"))

    @property
    def logs(self) -> Path:
        """The folder with one file per part."""
        return self.data_dir / "logs"


@contextmanager
def locked(data_dir: Path) -> Iterator[int]:
    """Hold the data folder for this run; yields the descriptor of the lock."""
    try:
        (data_dir / "logs").mkdir(parents=True, exist_ok=True)
        lock = os.open(data_dir / "dev.lock", os.O_RDWR | os.O_CREAT, 0o644)
    except OSError as error:
        raise DevError(f"DARKROOM_DATA_DIR: cannot use {data_dir} ({error.strerror})", 2) from error
    try:
        _take(lock, data_dir)
        os.ftruncate(lock, 0)
        os.pwrite(lock, str(os.getpid()).encode(), 0)
        yield lock
    finally:
        os.close(lock)


def check_ports(settings: Settings) -> None:
    """Raises DevError for a port that somebody else uses, or that two settings name."""
    wanted = (
        ("DARKROOM_TEMPORAL_PORT", "127.0.0.1", settings.temporal_port),
        ("DARKROOM_TEMPORAL_UI_PORT", "127.0.0.1", settings.temporal_ui_port),
        ("DARKROOM_API_PORT", settings.api_host, settings.api_port),
        ("DARKROOM_HEALTH_PORT", "127.0.0.1", settings.health_port),
    )
    named: dict[int, str] = {}
    for variable, _, port in wanted:
        if port in named:
            raise DevError(f"{named[port]} and {variable} both name port {port}", 2)
        named[port] = variable
    with ExitStack() as listening:
        for variable, host, port in wanted:
            listening.enter_context(_listen(variable, host, port))


def _listen(variable: str, host: str, port: int) -> socket.socket:
    try:
        family, *_ = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        return socket.create_server((host, port), family=family)
    except socket.gaierror as error:
        raise DevError(f"DARKROOM_API_HOST: {host!r} is no address of this machine", 2) from error
    except OSError as error:
        taken = error.errno == errno.EADDRINUSE
        why = "is taken" if taken else f"on {host} cannot be used ({os.strerror(error.errno or 0)})"
        raise DevError(f"port {port} {why}; set {variable} to another one") from error


def _take(lock: int, data_dir: Path) -> None:
    deadline = time.monotonic() + LOCK_WAIT_SECONDS
    waiting = False
    while not _try(lock):
        holder = os.pread(lock, 20, 0).decode() or "?"
        if (holder.isdigit() and is_running(int(holder))) or time.monotonic() > deadline:
            raise DevError(f"another `make run` (pid {holder}) uses this data folder: {data_dir}")
        if not waiting:
            say(f"the last run (pid {holder}) was killed; waiting until its parts have stopped")
        waiting = True
        time.sleep(0.2)


def _try(lock: int) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _port(environ: Mapping[str, str], variable: str, default: int) -> int:
    text = environ.get(variable)
    if not text:
        return default
    # isdecimal() alone lets other scripts' digits through.
    port = int(text) if text.isascii() and text.isdecimal() else 0
    if not 1 <= port <= 65_535:
        raise DevError(f"{variable}: {text!r} is no port (1 to 65535)", 2)
    return port


def _seconds(environ: Mapping[str, str], variable: str, default: float) -> float:
    text = environ.get(variable) or str(default)
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0.0 <= seconds <= 86_400.0:
        raise DevError(f"{variable}: {text!r} is no number of seconds (0 to 86400)", 2)
    return seconds


def _unused_port() -> int:
    """A free port below the range from which the system and the server take theirs."""
    while True:
        port = 20_000 + secrets.randbelow(10_000)
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) != 0:
                return port
