"""connect(): the one way to reach Temporal, shared by the API and the worker."""

import os
import socket
from datetime import timedelta

from temporalio.client import Client
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.envconfig import ClientConfig
from temporalio.runtime import Runtime
from temporalio.service import RetryConfig

DEFAULT_ADDRESS = "localhost:7233"

# Often enough that a killed worker is missed within a quarter of a minute.
WORKER_HEARTBEAT_INTERVAL = timedelta(seconds=5)

_RETRY_FOR = timedelta(seconds=10)


def process_identity() -> str:
    """How this process is named in histories, lists and transitions."""
    return f"{os.getpid()}@{socket.gethostname()}"


async def connect(
    *, lazy: bool = False, runtime: Runtime | None = None, retry_for: timedelta | None = None
) -> Client:
    """Connect as Temporal's standard `TEMPORAL_*` variables and profiles say.

    With `lazy` the connection is made at the first call, so that a process can start, and say that
    it is not ready, while Temporal is out of reach. `retry_for` bounds the SDK's own retries of a
    call, for callers that had better tell an outage soon.
    """
    config = ClientConfig.load_client_connect_config()
    config.setdefault("target_host", DEFAULT_ADDRESS)
    return await Client.connect(
        **config,
        data_converter=pydantic_data_converter,
        identity=process_identity(),
        lazy=lazy,
        runtime=runtime,
        retry_config=RetryConfig(
            max_elapsed_time_millis=int(1000 * (retry_for or _RETRY_FOR).total_seconds())
        ),
    )
