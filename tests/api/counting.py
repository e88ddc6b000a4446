"""A client of Temporal's that counts what it asks."""

from collections import Counter
from collections.abc import Mapping
from datetime import timedelta
from typing import Any, TypeVar

from google.protobuf.message import Message
from temporalio.client import Client
from temporalio.service import ServiceClient

Answer = TypeVar("Answer", bound=Message)


class CountingService(ServiceClient):
    """Passes every call on to another client, and counts it by its name."""

    def __init__(self, inner: ServiceClient) -> None:
        super().__init__(inner.config)
        self.asked: Counter[str] = Counter()
        self._inner = inner

    @property
    def worker_service_client(self) -> Any:
        """See `ServiceClient`."""
        return self._inner.worker_service_client

    def update_rpc_metadata(self, metadata: Mapping[str, str | bytes]) -> None:
        """See `ServiceClient`."""
        self._inner.update_rpc_metadata(metadata)

    def update_api_key(self, api_key: str | None) -> None:
        """See `ServiceClient`."""
        self._inner.update_api_key(api_key)

    async def _rpc_call(
        self,
        rpc: str,
        req: Message,
        resp_type: type[Answer],
        *,
        service: str,
        retry: bool,
        metadata: Mapping[str, str | bytes],
        timeout: timedelta | None,
    ) -> Answer:
        self.asked[rpc] += 1
        return await self._inner._rpc_call(
            rpc,
            req,
            resp_type,
            service=service,
            retry=retry,
            metadata=metadata,
            timeout=timeout,
        )


def counting(client: Client) -> tuple[Client, Counter[str]]:
    """A client of the same server, and how often it has made each call."""
    service = CountingService(client.service_client)
    own = Client(service, namespace=client.namespace, data_converter=client.data_converter)
    return own, service.asked
