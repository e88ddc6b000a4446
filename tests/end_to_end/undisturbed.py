"""What a job's image is when nothing comes between."""

import hashlib

from activities.engines.base import ImageDone, LocalEngine
from activities.finishing import FinishedImage
from activities.imaging.inspection import inspect_image
from activities.label_settings import LabelSettings
from activities.models import GenerationParameters


def made_undisturbed(
    engine: LocalEngine, name: str, parameters: GenerationParameters
) -> FinishedImage:
    """The engine's image as a worker with the default settings finishes it."""
    engine.load()
    [data] = [event.data for event in engine.run(parameters, None) if isinstance(event, ImageDone)]
    return LabelSettings().finisher().finish(data, inspect_image(data), parameters, name)


def undisturbed_sha256(engine: LocalEngine, name: str, parameters: GenerationParameters) -> str:
    """Of the image that is handed out."""
    return hashlib.sha256(made_undisturbed(engine, name, parameters).data).hexdigest()
