"""The one decision on where messages may go, taken at submit and again at every connection."""

from collections.abc import Sequence

from activities.callbacks.addresses import Address, check_address
from activities.callbacks.resolving import RememberingResolver, Resolver, SystemResolver
from activities.callbacks.rules import CallbackRules
from activities.callbacks.urls import CallbackUrl, parse_callback_url

# Somebody waits for the answer to a submit, and the name is looked at again before anything is
# sent to it.
_SUBMIT_SECONDS = 2.0


async def allowed_addresses(
    url: CallbackUrl, rules: CallbackRules, resolver: Resolver
) -> Sequence[Address]:
    """Where to connect to: none if the name can't be resolved now.

    Raises `CallbackRefusedError` if any address is forbidden, not only if all are: a name with both
    kinds is one that plays for the luck of the draw.
    """
    if url.host.address is not None:
        addresses: Sequence[Address] = [url.host.address]
    else:
        addresses = await resolver.resolve(url.host.text)
    if not rules.is_private(url.host, url.port):
        for address in addresses:
            check_address(address)
    return addresses


class SubmitCheck:
    """Checks addresses that tenants give; one for a process, so that it remembers names."""

    def __init__(self, rules: CallbackRules, resolver: Resolver | None = None) -> None:
        self._rules = rules
        self._resolver = RememberingResolver(resolver or SystemResolver(_SUBMIT_SECONDS))

    async def check_at_submit(self, text: str) -> CallbackUrl:
        """Read an address, or raise `CallbackRefusedError`; takes about 2 s at most.

        A name that can't be resolved now is let through: it is looked at again when a message is
        sent.
        """
        url = parse_callback_url(text, self._rules)
        await allowed_addresses(url, self._rules, self._resolver)
        return url
