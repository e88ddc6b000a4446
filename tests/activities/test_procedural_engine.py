"""The procedural engine: determinism, stops and resumes, refusals, and pictures that differ."""

import hashlib
import io
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import pytest
from PIL import Image

from activities.engines.base import (
    Capabilities,
    ImageDone,
    LocalEvent,
    PhaseBegun,
    StartedOver,
    StepDone,
)
from activities.engines.procedural import ProceduralEngine
from activities.errors import ErrorKind, InvalidParametersError
from activities.imaging.landscape.frame import Frame
from activities.imaging.landscape.refinement import noisy_canvas, refine
from activities.models import GenerationParameters, Phase

BASE = GenerationParameters(
    prompt="a lake at sunset", width=96, height=64, num_inference_steps=6, seed=11
)

PRINT_IMAGE_HASH = """
import hashlib, sys
from activities.engines.procedural import ProceduralEngine
from activities.models import GenerationParameters
parameters = GenerationParameters.model_validate_json(sys.argv[1])
*_, image = ProceduralEngine().run(parameters, None)
print(hashlib.sha256(image.data).hexdigest())
"""


def run(parameters: GenerationParameters, checkpoint: bytes | None = None) -> list[LocalEvent]:
    return list(ProceduralEngine().run(parameters, checkpoint))


def image_of(events: list[LocalEvent]) -> bytes:
    image = events[-1]
    assert isinstance(image, ImageDone)
    assert image.media_type == "image/png"
    return image.data


def pixels_of(parameters: GenerationParameters) -> np.ndarray:
    with Image.open(io.BytesIO(image_of(run(parameters)))) as image:
        return np.asarray(image.convert("RGB"), np.int16)


def difference(first: GenerationParameters, second: GenerationParameters) -> float:
    """The mean absolute difference of two pictures, in levels of 0..255."""
    return float(np.abs(pixels_of(first) - pixels_of(second)).mean())


def snapshots(parameters: GenerationParameters, checkpoint: bytes | None = None) -> Iterator[bytes]:
    for event in ProceduralEngine().run(parameters, checkpoint):
        if isinstance(event, StepDone) and event.snapshot is not None:
            yield event.snapshot()


def started_over(events: list[LocalEvent]) -> str:
    """The reason, after a look that all steps were done again."""
    first = events[0]
    assert isinstance(first, StartedOver)
    steps = [event.step for event in events if isinstance(event, StepDone)]
    assert steps == list(range(1, BASE.num_inference_steps + 1))
    return first.reason


def with_header(checkpoint: bytes, header: bytes) -> bytes:
    """The checkpoint with another header, of a right length."""
    old = int.from_bytes(checkpoint[:8], "little")
    return len(header).to_bytes(8, "little") + header + checkpoint[8 + old :]


def header_of(checkpoint: bytes) -> dict[str, dict[str, object]]:
    length = int.from_bytes(checkpoint[:8], "little")
    header: dict[str, dict[str, object]] = json.loads(checkpoint[8 : 8 + length])
    return header


def edited(checkpoint: bytes, **metadata: object) -> bytes:
    header = header_of(checkpoint)
    header["__metadata__"].update(metadata)
    return with_header(checkpoint, json.dumps(header).encode())


def test_run_tells_each_step_then_decoding_then_the_image() -> None:
    events = run(BASE)
    steps = [(event.step, event.total_steps) for event in events if isinstance(event, StepDone)]
    assert steps == [(step, 6) for step in range(1, 7)]
    assert events[6] == PhaseBegun(Phase.DECODE)
    assert len(events) == 8
    with Image.open(io.BytesIO(image_of(events))) as image:
        assert (image.format, image.mode, image.size) == ("PNG", "RGB", (96, 64))


def test_engine_tells_what_it_can_do() -> None:
    engine = ProceduralEngine()
    engine.load()
    assert engine.capabilities == Capabilities(
        seed=True, progress=True, checkpoint=True, targeted_cancel=True
    )


def test_same_parameters_give_the_same_bytes() -> None:
    assert image_of(run(BASE)) == image_of(run(BASE))


@pytest.mark.parametrize("hash_seed", ["1", "2"])
def test_another_process_gives_the_same_bytes(hash_seed: str) -> None:
    command = [sys.executable, "-c", PRINT_IMAGE_HASH, BASE.model_dump_json()]
    environment = {
        **os.environ,
        "PYTHONHASHSEED": hash_seed,
        "PYTHONPATH": os.pathsep.join(sys.path),
    }
    printed = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    assert printed.stdout.strip() == hashlib.sha256(image_of(run(BASE))).hexdigest()


@pytest.mark.parametrize(
    ("prompt", "expected"),
    [
        ("a lake at sunset", "50d72c21e647a1abf6f072975f723f3c5d9e171c75eb19e4bb152fe818430b67"),
        ("雪 night aurora", "f48b9e1680c1d3f5a4975804a5382e280be7832c4d2b2b32be1166a7b02b2de1"),
        ("city", "f56a0f4c8dbf3a21cb0fd3aa0241181efe2f9e22488fcabf11103fbff1cb1963"),
        ("樱花", "e87cff88737288ce3ab1fea97dedb13d7636fa22126b6d9f3f0ba96dcc63915b"),
        ("meadow", "a14c581f6a8511e4e0d99d84add8cc40f4c1d74b5ca432c702886a9b32affe60"),
    ],
)
def test_pixels_are_those_that_were_recorded(prompt: str, expected: str) -> None:
    # Where a change of pixels is wanted: raise ENGINE_VERSION and record anew.
    pixels = pixels_of(BASE.model_copy(update={"prompt": prompt})).astype(np.uint8)
    assert hashlib.sha256(pixels.tobytes()).hexdigest() == expected


@pytest.mark.parametrize(
    ("change", "at_least"),
    [
        ({"prompt": "a lake at sunset!"}, 8.0),
        ({"prompt": "日落"}, 8.0),
        ({"seed": 12}, 8.0),
        ({"seed": 11 + 2**32}, 8.0),
        ({"seed": 11 + 2**63}, 8.0),
        ({"negative_prompt": "people"}, 8.0),
        ({"guidance_scale": 3.0}, 4.0),
        ({"guidance_scale": 12.0}, 2.0),
    ],
)
def test_another_parameter_gives_a_picture_that_looks_different(
    change: dict[str, object], at_least: float
) -> None:
    smooth = BASE.model_copy(update={"num_inference_steps": 20})
    assert difference(smooth, smooth.model_copy(update=change)) > at_least


def test_words_of_the_negative_prompt_take_their_subject_out() -> None:
    night = BASE.model_copy(update={"prompt": "the sea at night", "num_inference_steps": 20})
    no_night = night.model_copy(update={"negative_prompt": "night, dusk"})
    assert pixels_of(no_night).mean() > pixels_of(night).mean() + 30


def test_more_steps_are_cleaner() -> None:
    clean = pixels_of(BASE.model_copy(update={"num_inference_steps": 150}))
    counts = (1, 2, 4, 8, 20, 40)
    rough = [
        float(np.abs(pixels_of(BASE.model_copy(update={"num_inference_steps": n})) - clean).mean())
        for n in counts
    ]
    assert all(more > less for more, less in pairwise(rough))
    assert rough[0] > 10
    assert rough[4] < 3


@pytest.mark.parametrize("size", [(96, 64), (300, 280)])
def test_a_run_resumed_after_any_step_ends_in_the_same_bytes(size: tuple[int, int]) -> None:
    # The larger one is painted over several steps, from a sketch.
    parameters = BASE.model_copy(update={"width": size[0], "height": size[1]})
    undisturbed = image_of(run(parameters))
    for step, checkpoint in enumerate(snapshots(parameters), start=1):
        assert len(checkpoint) < size[0] * size[1] * 3 + 1024
        events = run(parameters, checkpoint)
        steps = [event.step for event in events if isinstance(event, StepDone)]
        assert steps == list(range(step + 1, 7))
        assert image_of(events) == undisturbed


def test_a_run_stopped_after_every_step_ends_in_the_same_bytes() -> None:
    checkpoint = None
    for _ in range(BASE.num_inference_steps):
        checkpoint = next(snapshots(BASE, checkpoint))
    assert image_of(run(BASE, checkpoint)) == image_of(run(BASE))


def test_the_first_canvas_leaves_its_trace_in_the_last() -> None:
    scene = np.full((64, 64, 3), 90, np.uint8)
    first = noisy_canvas(Frame(64, 64), 5)
    second = 255 - first
    for step in range(1, 31):
        refine(first, scene, 5, step, 30)
        refine(second, scene, 5, step, 30)
    assert (first != second).mean() > 0.2


@pytest.mark.parametrize(
    "change",
    [
        {"prompt": "a lake at sunrise"},
        {"negative_prompt": "people"},
        {"seed": 12},
        {"guidance_scale": 7.0},
        {"num_inference_steps": 7},
        {"width": 64, "height": 96},
    ],
)
def test_a_checkpoint_of_other_parameters_starts_over(change: dict[str, object]) -> None:
    checkpoint = next(snapshots(BASE.model_copy(update=change)))
    events = run(BASE, checkpoint)
    assert "other parameters" in started_over(events)
    assert image_of(events) == image_of(run(BASE))


def test_a_checkpoint_of_another_build_starts_over() -> None:
    checkpoint = edited(next(snapshots(BASE)), fingerprint="0" * 64)
    assert "another version" in started_over(run(BASE, checkpoint))


def damaged(checkpoint: bytes) -> Iterator[bytes]:
    yield from (b"", b"\x00" * 7, b"\xff" * 64)
    yield from (checkpoint[:40], checkpoint[:-1], checkpoint + b"\x00")
    yield checkpoint[:-100] + bytes([checkpoint[-100] ^ 1]) + checkpoint[-99:]
    for header in (b"[]", b"{}", b"\xfe", b"[" * 60_000, b'{"__metadata__": 3}'):
        yield with_header(checkpoint, header)
    for step in ("0", "2", "-1", "7", "1.5", "", "\uff11", 1, None, "9" * 9999):
        yield edited(checkpoint, step=step)
    without_canvas = {"__metadata__": header_of(checkpoint)["__metadata__"]}
    yield with_header(checkpoint, json.dumps(without_canvas).encode())


def test_a_damaged_checkpoint_starts_over_with_a_reason() -> None:
    checkpoint = next(snapshots(BASE))
    for broken in damaged(checkpoint):
        assert "damaged" in started_over(run(BASE, broken))


def test_damage_anywhere_in_the_header_never_raises() -> None:
    checkpoint = next(snapshots(BASE))
    for position in range(8 + int.from_bytes(checkpoint[:8], "little")):
        flipped = bytes([checkpoint[position] ^ 0x15])
        broken = checkpoint[:position] + flipped + checkpoint[position + 1 :]
        first = next(ProceduralEngine().run(BASE, broken))
        assert isinstance(first, StartedOver | StepDone)


@pytest.mark.parametrize(
    "change",
    [
        {"width": 65, "height": 127},
        {"width": 64, "height": 2048},
        {"width": 2048, "height": 64},
        {"num_inference_steps": 1},
        {"num_inference_steps": 150},
        {"seed": 2**64 - 1},
        {"prompt": ""},
        {"prompt": "\x00 \U0001f30c مرحبا \ud800" * 50},
        {"guidance_scale": 0.0},
        {"guidance_scale": float("nan")},
        {"guidance_scale": 1e300},
    ],
)
def test_extreme_parameters_give_a_picture(change: dict[str, object]) -> None:
    parameters = BASE.model_copy(update=change)
    pixels = pixels_of(parameters)
    assert pixels.shape == (parameters.height, parameters.width, 3)
    assert pixels.std() > 5


def test_an_unknown_engine_option_is_refused_by_name() -> None:
    with pytest.raises(InvalidParametersError, match=r"'sampler'.*no options") as refusal:
        run(BASE.model_copy(update={"engine_options": {"sampler": "euler"}}))
    assert refusal.value.kind is ErrorKind.INVALID_PARAMETERS


@pytest.mark.parametrize(
    "change", [{"width": 63}, {"height": 2049}, {"num_inference_steps": 0}, {"width": 0}]
)
def test_sizes_and_steps_out_of_range_are_refused(change: dict[str, object]) -> None:
    with pytest.raises(InvalidParametersError):
        run(BASE.model_copy(update=change))
