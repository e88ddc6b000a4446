"""The remover of visible labels, in a child process as every engine that computes locally."""

import os
import queue
import threading
from collections.abc import Callable, Generator, Iterator
from pathlib import Path

from activities.engines.base import Capabilities, ImageDone, LabelRemoved, LocalEvent, StepDone
from activities.errors import ErrorKind, InvalidParametersError, WorkError
from activities.imaging.errors import UnfitImageError
from activities.imaging.labels.profile import LabelProfile
from activities.imaging.removal import (
    CleanCopy,
    LabelNotFoundError,
    OnStep,
    Pristine,
    remove_label,
    restore_own,
    without_others,
)
from activities.label_settings import LabelSettings
from activities.models import RemovalParameters
from activities.settings import SettingsError


class _StoppedError(Exception):
    """Nobody waits for the copy any longer."""


class LabelRemover:
    """Removes the labels that this service draws, or knows from a provider.

    A removal takes a second at the most, so there are no checkpoints: one that was stopped begins
    anew.
    """

    capabilities = Capabilities(progress=True, targeted_cancel=True)

    def __init__(self) -> None:
        self._own: list[LabelProfile] = []
        self._providers: list[LabelProfile] = []

    def load(self) -> None:
        """Read which labels there are."""
        try:
            settings = LabelSettings.from_environ(os.environ)
            self._own, self._providers = [settings.own_label()], settings.provider_labels()
        except SettingsError as error:
            raise WorkError(ErrorKind.ENGINE_UNAVAILABLE, str(error)) from error

    def run(self, parameters: RemovalParameters, checkpoint: bytes | None) -> Iterator[LocalEvent]:
        """Yield a step for each iteration, how the label was removed, and the copy."""
        del checkpoint
        try:
            copy = yield from _stepwise(lambda on_step: self._remove(parameters, on_step))
        except LabelNotFoundError as error:
            message = "the image carries no label that this service knows; it was left as it is"
            raise WorkError(ErrorKind.LABEL_NOT_FOUND, message) from error
        except UnfitImageError as error:
            raise InvalidParametersError(f"the label can't be removed: {error}") from error
        yield LabelRemoved(copy.removed)
        yield ImageDone(copy.data, parameters.media_type)

    def _remove(self, parameters: RemovalParameters, on_step: OnStep) -> CleanCopy:
        source = Path(parameters.source).read_bytes()
        if parameters.pristine is None or parameters.box is None:
            known = [*self._own_of(parameters), *self._providers]
            return remove_label(source, parameters.media_type, known, on_step)
        pristine = Pristine(parameters.box, Path(parameters.pristine).read_bytes())
        copy = restore_own(source, parameters.media_type, pristine)
        on_step(1, 1)
        return without_others(copy, parameters.media_type, self._providers, on_step)

    def _own_of(self, parameters: RemovalParameters) -> list[LabelProfile]:
        """The service's own label as it was drawn on this image, where that is known."""
        if parameters.profile is None:
            return self._own
        return [LabelProfile.read(Path(parameters.profile))]


def _stepwise(
    work: Callable[[OnStep], CleanCopy],
) -> Generator[LocalEvent, None, CleanCopy]:
    """Do the work in a thread, and yield its steps; closed early, it ends the work too."""
    told: queue.Queue[StepDone | CleanCopy | Exception] = queue.Queue()
    is_stopped = threading.Event()

    def on_step(step: int, total: int) -> None:
        if is_stopped.is_set():
            raise _StoppedError
        told.put(StepDone(step, total))

    def run() -> None:
        try:
            told.put(work(on_step))
        # Whatever it is, it is raised where the result is waited for.
        except Exception as error:  # noqa: BLE001
            told.put(error)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        while isinstance(event := told.get(), StepDone):
            yield event
    finally:
        is_stopped.set()
        thread.join()
    if isinstance(event, Exception):
        raise event
    return event
