"""The `diffusers` engine: Hugging Face pipelines from a local folder (an optional extra).

torch, diffusers and transformers are imported by the modules beside this one, which are imported
only once the engine is loaded, in its own process: the worker never has them.
"""

import functools
import os
from collections.abc import Callable, Generator

from activities.engines.base import Capabilities, LocalEvent
from activities.engines.diffusers_settings import DiffusersSettings, unavailable
from activities.models import GenerationParameters

_Events = Generator[LocalEvent, None, None]
_RunJob = Callable[[GenerationParameters, bytes | None], _Events]

_EXTRA = frozenset(("torch", "diffusers", "transformers", "scipy"))
_EXTRA_IS_MISSING = "the diffusers extra is not installed: pip install 'darkroom[diffusers]'"

# Read by the libraries when they are imported. Nothing is fetched and nothing is reported; and
# without the last one cuBLAS may add up in another order each time.
_ENVIRONMENT = {
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "TOKENIZERS_PARALLELISM": "false",
    "CUBLAS_WORKSPACE_CONFIG": ":4096:8",
}


class DiffusersEngine:
    """Draws with the text-to-image pipeline in the folder that `DARKROOM_DIFFUSERS_MODEL` names.

    The same parameters give the same bytes on the same build, device and number of threads, also
    for a run that was killed after any step and goes on in another process. Where scheduler or
    pipeline can't do that, there are no checkpoints, and such a run is begun again.
    """

    def __init__(self, settings: DiffusersSettings | None = None) -> None:
        """Take the settings from the environment unless given; raises `WorkError`."""
        self._settings = settings or DiffusersSettings.from_environ(os.environ)
        self._run_job: _RunJob | None = None

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(seed=True, progress=True, checkpoint=True, targeted_cancel=True)

    def load(self) -> None:
        """Import the libraries and load the pipeline; raises `WorkError`."""
        folder = self._settings.folder
        os.environ.update(_ENVIRONMENT)
        try:
            # Not at the top: this is the border behind which the extra is needed.
            from activities.engines.diffusers_model import load_model  # noqa: PLC0415
            from activities.engines.diffusers_run import run_job  # noqa: PLC0415
        except ModuleNotFoundError as error:
            if (error.name or "").partition(".")[0] not in _EXTRA:
                raise
            raise unavailable(_EXTRA_IS_MISSING) from error
        self._run_job = functools.partial(run_job, load_model(folder, self._settings))

    def run(self, parameters: GenerationParameters, checkpoint: bytes | None) -> _Events:
        """See `diffusers_run.run_job`."""
        if self._run_job is None:
            raise RuntimeError("load() comes before run()")
        return self._run_job(parameters, checkpoint)
