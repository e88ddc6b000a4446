"""The README is held against the code."""

import hashlib
import json
import re
from pathlib import Path

import pytest

from activities.engines.base import ImageDone, StepDone
from activities.engines.procedural import ProceduralEngine
from activities.engines.process import ChildProcessEngine
from activities.engines.slot import StallLimits
from activities.imaging.inspection import ImageFacts, inspect_image
from activities.imaging.provenance.embedding import read_provenance
from activities.imaging.stills import pixels_of
from activities.label_settings import LabelSettings
from activities.models import GenerationParameters
from activities.settings import WorkerSettings
from api.settings import ApiSettings
from tests.end_to_end.undisturbed import made_undisturbed
from workflows.search_attributes import JOB_ENGINE, JOB_PRIORITY, JOB_STATE
from workflows.state_machine import diagram

PROJECT = Path(__file__).resolve().parents[1]
README = (PROJECT / "README.md").read_text()
MENTIONED = set(re.findall(r"DARKROOM_[A-Z0-9_]+[A-Z]", README))


def test_the_state_diagram_is_the_one_of_the_table() -> None:
    [block] = re.findall(r"```mermaid\n(.*?)```", README, re.DOTALL)
    assert block.strip() == diagram()


def test_every_setting_is_documented_and_every_documented_setting_exists() -> None:
    fields = {*WorkerSettings.model_fields, *ApiSettings.model_fields, *LabelSettings.model_fields}
    known = {f"DARKROOM_{field.upper()}" for field in fields}
    of_make_run = {"DARKROOM_TEMPORAL_PORT", "DARKROOM_TEMPORAL_UI_PORT"}
    # The settings of this engine are documented in a file of their own.
    of_diffusers = {name for name in MENTIONED if name.startswith("DARKROOM_DIFFUSERS_")}
    assert MENTIONED - of_diffusers == known | of_make_run


def test_the_documented_defaults_are_the_real_ones() -> None:
    rows = re.findall(r"^\| `DARKROOM_([A-Z_]+)` \| `?([^|`]+?)`? \|", README, re.MULTILINE)
    fields = WorkerSettings.model_fields | ApiSettings.model_fields | LabelSettings.model_fields
    words = {"True": "on", "False": "off", "None": "none"}
    simple = {name: default for name, default in rows if " " not in default}
    assert len(simple) >= 10
    for name, default in simple.items():
        real = str(fields[name.lower()].default)
        assert default == words.get(real, real), name


def test_the_search_attributes_of_the_examples_exist() -> None:
    for key in (JOB_STATE, JOB_ENGINE, JOB_PRIORITY):
        assert key.name in README


def test_the_first_job_makes_the_picture_that_is_shown() -> None:
    shown = (PROJECT / "docs/first-job.png").read_bytes()
    assert hashlib.sha256(shown).hexdigest() in README
    [asked] = re.findall(r"-d '(\{\"prompt\": \"a city.*?\})'", README)
    parameters = GenerationParameters(**json.loads(asked))
    made = made_undisturbed(ProceduralEngine(), "procedural", parameters)
    # By its pixels: another build of Pillow may compress them in other words.
    assert (pixels_of(made.data) == pixels_of(shown)).all()
    assert read_provenance(made.data) == read_provenance(shown)


def test_every_linked_picture_exists() -> None:
    pictures = re.findall(r"!\[[^]]*\]\(([^)]+)\)", README)
    assert pictures
    for picture in pictures:
        assert (PROJECT / picture).is_file(), picture


async def test_the_engine_of_the_readme_draws(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    [source] = re.findall(r"```python\n# my_engines.py\n(.*?)```", README, re.DOTALL)
    (tmp_path / "my_engines.py").write_text(source)
    # What PYTHONPATH=. does: the child finds what its worker finds.
    monkeypatch.syspath_prepend(str(tmp_path))
    engine = ChildProcessEngine("plain", "my_engines:Plain", 1, StallLimits(), 1)
    try:
        parameters = GenerationParameters(
            prompt="x", width=64, height=96, num_inference_steps=3, seed=1
        )
        async with engine.open("job", parameters, None, tmp_path) as run:
            events = [event async for event in run.events()]
    finally:
        await engine.stop()
    assert [event.step for event in events if isinstance(event, StepDone)] == [1, 2, 3]
    image = events[-1]
    assert isinstance(image, ImageDone)
    assert inspect_image(image.data) == ImageFacts("image/png", 64, 96)
