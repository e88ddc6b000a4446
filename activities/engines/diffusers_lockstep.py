"""Blocking code that reports by callback, as an iterator which holds it at each report."""

import threading
from collections.abc import Callable, Generator, Iterator
from queue import SimpleQueue
from typing import Generic, TypeVar

T = TypeVar("T")

Tell = Callable[[T], None]


class AbandonedError(BaseException):
    """Raised inside the blocking code once nobody listens any more.

    Not an `Exception`, so that no library takes it for one of its own and goes on.
    """


class _Rendezvous(Generic[T]):
    """Where the thread that works and the one that listens meet; only one of them ever runs."""

    def __init__(self, act: Callable[[Tell[T]], None]) -> None:
        self._act = act
        self._told: SimpleQueue[tuple[T] | None] = SimpleQueue()
        self._answers: SimpleQueue[None] = SimpleQueue()
        self._abandoned = False
        self.failure: BaseException | None = None

    def run(self) -> None:
        """The working thread's life."""
        try:
            self._act(self._tell)
        except AbandonedError:
            pass
        # Whatever it is, it is raised again in the thread that listens.
        except BaseException as error:  # noqa: BLE001
            self.failure = error
        self._told.put(None)

    def _tell(self, value: T) -> None:
        self._told.put((value,))
        # Also where a library has swallowed the first one: it would wait here for ever.
        if not self._abandoned:
            self._answers.get()
        if self._abandoned:
            raise AbandonedError

    def listen(self) -> Iterator[T]:
        """Yield what is told, and let the work go on when the next one is asked for."""
        while (told := self._told.get()) is not None:
            yield told[0]
            self._answers.put(None)

    def abandon(self) -> None:
        """Have the next `tell`, or the one that waits, raise."""
        self._abandoned = True
        self._answers.put(None)


def in_lockstep(act: Callable[[Tell[T]], None]) -> Generator[T, None, None]:
    """Run `act(tell)` in a thread of its own and yield what it tells; raise what it raises.

    While a value is with the consumer, `act` stands still inside `tell`. Closing the iterator
    makes that `tell` raise `AbandonedError`, and returns when the thread has ended.
    """
    rendezvous = _Rendezvous(act)
    thread = threading.Thread(target=rendezvous.run, name="lockstep", daemon=True)
    thread.start()
    try:
        yield from rendezvous.listen()
    finally:
        rendezvous.abandon()
        thread.join()
    if rendezvous.failure is not None:
        raise rendezvous.failure
