"""What the diffusers engine says of its settings and of a missing extra; needs no extra."""

import subprocess
import sys
from pathlib import Path

import pytest

from activities.engines.base import Capabilities
from activities.engines.diffusers import DiffusersEngine
from activities.engines.diffusers_settings import DiffusersSettings
from activities.errors import ErrorKind, WorkError

PROJECT = Path(__file__).resolve().parents[2]

LOAD_WITHOUT = """
import sys
sys.modules[sys.argv[1]] = None
from activities.engines.diffusers import DiffusersEngine
from activities.engines.diffusers_settings import DiffusersSettings
from activities.errors import WorkError
try:
    DiffusersEngine(DiffusersSettings(model="/nowhere")).load()
except WorkError as error:
    print(error.kind, error.message)
"""

IMPORTED = """
import sys
import worker
from activities.engines.diffusers import DiffusersEngine
print(sorted({"torch", "diffusers", "transformers"} & set(sys.modules)))
"""


def python(program: str, *arguments: str) -> str:
    command = [sys.executable, "-c", program, *arguments]
    done = subprocess.run(command, cwd=PROJECT, check=True, capture_output=True, text=True)
    return done.stdout.strip()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("DEVICE", "tpu"),
        ("DTYPE", "int8"),
        ("THREADS", "0"),
        ("THREADS", "many"),
        ("VARIANT", "../fp16"),
    ],
)
def test_a_bad_setting_is_told_by_its_name(name: str, value: str) -> None:
    with pytest.raises(WorkError, match=f"DARKROOM_DIFFUSERS_{name}: ") as refusal:
        DiffusersSettings.from_environ({f"DARKROOM_DIFFUSERS_{name}": value})
    assert refusal.value.kind is ErrorKind.ENGINE_UNAVAILABLE
    assert "https://" not in refusal.value.message


def test_settings_are_read_and_empty_ones_are_not_set() -> None:
    environment = {
        "DARKROOM_DIFFUSERS_MODEL": "/models/tiny",
        "DARKROOM_DIFFUSERS_THREADS": "3",
        "DARKROOM_DIFFUSERS_DTYPE": "",
        "UNRELATED": "x",
    }
    settings = DiffusersSettings.from_environ(environment)
    assert settings == DiffusersSettings(model="/models/tiny", threads=3)
    assert settings.folder == Path("/models/tiny")


def test_no_model_is_told_by_the_setting_to_set() -> None:
    with pytest.raises(WorkError, match="DARKROOM_DIFFUSERS_MODEL is not set"):
        _ = DiffusersSettings().folder


def test_the_engine_tells_what_it_can_do_before_it_is_loaded() -> None:
    assert DiffusersEngine(DiffusersSettings()).capabilities == Capabilities(
        seed=True, progress=True, checkpoint=True, targeted_cancel=True
    )


@pytest.mark.parametrize("missing", ["torch", "diffusers"])
def test_a_missing_extra_is_told_with_the_way_to_install_it(missing: str) -> None:
    expected = (
        "ENGINE_UNAVAILABLE the diffusers extra is not installed: pip install 'darkroom[diffusers]'"
    )
    assert python(LOAD_WITHOUT, missing) == expected


def test_the_worker_imports_none_of_the_libraries() -> None:
    assert python(IMPORTED) == "[]"
