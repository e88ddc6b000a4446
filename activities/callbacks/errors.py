"""Why a message isn't sent, or not received, in words for the tenant.

Neither says an internal address, a path, or what a name resolved to.
"""


class CallbackRefusedError(ValueError):
    """An address that no message may go to; the message says what is allowed."""


class CallbackFailedError(Exception):
    """A receiver that couldn't be reached, or gave no answer."""
