"""The real remover of labels in its child process, and images of this service to give it."""

import io
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from temporalio.exceptions import ApplicationError
from temporalio.testing import ActivityEnvironment

from activities.artifacts import LocalArtifactStore, put_image, put_pristine
from activities.engine_work import EngineWork
from activities.engines.process import ChildProcessEngine
from activities.finishing import FinishedImage
from activities.imaging.inspection import inspect_image
from activities.imaging.labels.drawing import draw_label
from activities.imaging.labels.lettering import own_profile
from activities.kept_profiles import keep_profile
from activities.label_settings import LabelSettings
from activities.models import (
    DrawnLabel,
    FailureReport,
    GenerationParameters,
    RemovalTask,
    WorkInput,
    WorkResult,
)
from activities.refs import ArtifactRef
from activities.scratch import Scratch
from activities.watermark import WatermarkActivities
from tests.activities.attempt_bench import GRACES
from tests.activities.engine_jobs import serving
from tests.fakes import FakeOwnership

REMOVER = "activities.engines.label_remover:LabelRemover"
PROVIDER = own_profile("ACME IMAGES", anchor="top-left", opacity=0.5)
PARAMETERS = GenerationParameters(prompt="a lake", seed=7)
ASKED_AT = datetime(2026, 11, 30, 12, tzinfo=UTC)


class Bench:
    """A store with images, and the activity over it."""

    def __init__(self, root: Path, engine: ChildProcessEngine) -> None:
        self.root = root
        self.store = LocalArtifactStore(root / "artifacts")
        self.scratch = Scratch(root / "tmp")
        work = EngineWork(engine, self.store, self.scratch, FakeOwnership(), "me", GRACES)
        self.activities = WatermarkActivities(work)

    async def keep(self, data: bytes, media_type: str = "image/png") -> ArtifactRef:
        """Store an image of the first job."""
        with Image.open(io.BytesIO(data)) as image:
            return await put_image(self.store, "first", data, media_type, image.size)

    async def keep_finished(self, finished: FinishedImage) -> RemovalTask:
        """Store a labelled image as `generate_image` does."""
        assert finished.covered is not None
        covered, facts = finished.covered, finished.covered.facts
        size = (facts.width, facts.height)
        pristine = await put_pristine(self.store, "first", covered.file, facts.media_type, size)
        profile = await keep_profile(self.store, covered.profile)
        source = await self.keep(finished.data, finished.facts.media_type)
        return task(source, DrawnLabel(box=covered.box, pristine=pristine, profile=profile))

    async def remove(self, asked: RemovalTask) -> WorkResult:
        """One attempt of the second job."""
        work = WorkInput(
            job_id="second",
            tenant="anne",
            dispatch=1,
            parameters=PARAMETERS,
            predecessor_id="first",
            removal=asked,
        )
        return await ActivityEnvironment().run(self.activities.remove_watermark, work)

    async def fails(self, asked: RemovalTask) -> tuple[FailureReport, str]:
        """Run to a failure that the workflow can read; nothing but the record is stored."""
        with pytest.raises(ApplicationError) as failure:
            await self.remove(asked)
        assert failure.value.non_retryable
        assert not (self.root / "artifacts/jobs/second").exists()
        return FailureReport.model_validate(failure.value.details[0]), failure.value.message

    def bytes_of(self, result: WorkResult) -> bytes:
        """The stored copy."""
        assert result.artifact is not None
        assert result.artifact.is_of("second")
        return (self.root / "artifacts" / result.artifact.key).read_bytes()


@asynccontextmanager
async def removing(root: Path, environ: pytest.MonkeyPatch) -> AsyncIterator[Bench]:
    """A remover that knows the service's own label and a provider's; it leaves nothing behind."""
    (root / "profiles").mkdir()
    PROVIDER.write(root / "profiles/acme.json")
    environ.setenv("DARKROOM_LABEL_PROFILES", str(root / "profiles"))
    async with serving(spec=REMOVER) as engine:
        bench = Bench(root, engine)
        yield bench
        assert list((root / "tmp").glob("worker-*/*")) == []
        bench.scratch.close()


def task(source: ArtifactRef, label: DrawnLabel | None = None) -> RemovalTask:
    """The wish for a copy."""
    return RemovalTask(source=source, label=label, asked_by="api:anne", asked_at=ASKED_AT)


def landscape(size: tuple[int, int] = (640, 480)) -> Image.Image:
    """A smooth picture with some grain, as a photograph has."""
    across, down = np.meshgrid(np.linspace(0, 3, size[0]), np.linspace(0, 2, size[1]))
    grain = np.random.default_rng(1).normal(0, 3, (size[1], size[0], 3))
    waves = np.stack([np.sin(across + down), np.cos(across * 2), np.sin(down * 3)], axis=-1)
    return Image.fromarray(np.clip(128 + 60 * waves + grain, 0, 255).astype(np.uint8))


def png_of(image: Image.Image) -> bytes:
    file = io.BytesIO()
    image.save(file, "PNG")
    return file.getvalue()


def pixels_of(data: bytes) -> np.ndarray[tuple[int, ...], np.dtype[np.uint8]]:
    with Image.open(io.BytesIO(data)) as image:
        return np.asarray(image.convert("RGB"))


def finished(image: Image.Image, **settings: object) -> FinishedImage:
    """The picture as `generate_image` finishes it."""
    data, finisher = png_of(image), LabelSettings.model_validate(settings).finisher()
    return finisher.finish(data, inspect_image(data), PARAMETERS, "procedural")


def marked(image: Image.Image) -> bytes:
    """The picture as the provider hands it out."""
    pixels = np.asarray(image)
    return png_of(Image.fromarray(draw_label(pixels, PROVIDER.mark_on(*image.size))))
