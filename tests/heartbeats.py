"""Workers that are heard of, however long a test takes: what polls counts as there for seconds."""

from datetime import timedelta

from temporalio.client import Client
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.runtime import Runtime, TelemetryConfig


async def beating(client: Client, identity: str | None = None) -> Client:
    """A client of the same server whose workers send a heartbeat every second."""
    runtime = Runtime(telemetry=TelemetryConfig(), worker_heartbeat_interval=timedelta(seconds=1))
    return await Client.connect(
        client.service_client.config.target_host,
        data_converter=pydantic_data_converter,
        identity=identity,
        runtime=runtime,
    )
