"""remove_watermark with the real remover in its child process: what it gives, and what it won't."""

import io
import json
from collections.abc import AsyncIterator
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from activities.artifacts import put_image
from activities.imaging.inspection import inspect_image
from activities.label_settings import LabelSettings
from tests.activities.removal_bench import (
    PARAMETERS,
    PROVIDER,
    Bench,
    finished,
    landscape,
    marked,
    pixels_of,
    png_of,
    removing,
    task,
)


@pytest.fixture
async def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Bench]:
    """See `removing`."""
    async with removing(tmp_path, monkeypatch) as bench:
        yield bench


async def test_own_label_goes_without_a_trace_and_provenance_stays(bench: Bench) -> None:
    before = finished(landscape())
    result = await bench.remove(await bench.keep_finished(before))
    data = bench.bytes_of(result)
    assert (pixels_of(data) == np.asarray(landscape())).all()
    assert result.removed is not None
    assert (result.removed.profile, result.removed.method) == ("own", "pristine")
    assert result.provenance == before.provenance
    with Image.open(io.BytesIO(data)) as image:
        assert "trainedAlgorithmicMedia" in str(image.getxmp())


async def test_who_asked_is_on_record(bench: Bench) -> None:
    asked = await bench.keep_finished(finished(landscape()))
    await bench.remove(asked)
    told = json.loads((bench.root / "artifacts/records/first.json").read_text())
    assert told == {
        "job_id": "first",
        "removal_job_id": "second",
        "tenant": "anne",
        "asked_by": "api:anne",
        "asked_at": "2026-11-30T12:00:00Z",
        "terms_accepted": True,
        "image_sha256": asked.source.sha256,
    }


async def test_who_asks_again_takes_nobody_off_the_record(bench: Bench) -> None:
    asked = await bench.keep_finished(finished(landscape()))
    later = asked.model_copy(update={"asked_by": "api:bob"})
    for one in (asked, later, later, asked):
        await bench.remove(one)
    records = bench.root / "artifacts/records"
    first, [further] = records / "first.json", list((records / "first").iterdir())
    told = [json.loads(file.read_text())["asked_by"] for file in (first, further)]
    assert told == ["api:anne", "api:bob"]


async def test_repeated_attempt_gives_the_same_copy(bench: Bench) -> None:
    asked = await bench.keep_finished(finished(landscape()))
    once, again = [await bench.remove(asked) for _ in range(2)]
    assert once.artifact == again.artifact


async def test_label_of_a_provider_is_found_and_computed_away(bench: Bench) -> None:
    result = await bench.remove(task(await bench.keep(marked(landscape()))))
    assert result.removed is not None
    assert (result.removed.profile, result.removed.method) == ("ACME IMAGES", "inverse")
    assert result.removed.is_clean
    difference = pixels_of(bench.bytes_of(result)).astype(int) - np.asarray(landscape())
    assert np.abs(difference).max() <= 2
    assert result.progress is not None
    assert result.progress.step == result.progress.total_steps


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "WEBP"])
async def test_label_of_a_provider_goes_with_the_own_one_above_it(bench: Bench, kind: str) -> None:
    file = io.BytesIO()
    with Image.open(io.BytesIO(marked(landscape()))) as image:
        image.save(file, kind, **({"quality": 90} if kind == "JPEG" else {"lossless": True}))
    data = file.getvalue()
    made = LabelSettings().finisher().finish(data, inspect_image(data), PARAMETERS, "procedural")
    result = await bench.remove(await bench.keep_finished(made))
    assert result.removed is not None
    assert (result.removed.profile, result.removed.is_clean) == ("ACME IMAGES", True)
    assert result.provenance == made.provenance
    left, top, right, bottom = PROVIDER.mark_on(640, 480).box
    box = np.s_[top:bottom, left:right]
    clean, before = (pixels_of(one)[box].astype(int) for one in (bench.bytes_of(result), data))
    truth = np.asarray(landscape())[box]
    assert np.abs(before - truth).mean() > 10 * np.abs(clean - truth).mean()


@pytest.mark.parametrize(
    "box", [(0, 0, 5, 5), (-5, 10**9, 5, 5), (10**12, 10**12, 10**12 + 9, 10**12 + 9)]
)
async def test_kept_pixels_that_are_not_the_boxes_are_refused(
    bench: Bench, box: tuple[int, int, int, int]
) -> None:
    asked = await bench.keep_finished(finished(landscape()))
    assert asked.label is not None
    wrong = asked.label.model_copy(update={"box": box})
    report, message = await bench.fails(asked.model_copy(update={"label": wrong}))
    assert report.kind == "INVALID_PARAMETERS"
    assert "not of this image" in message


async def test_kept_pixels_that_do_not_lie_in_the_image_are_refused(bench: Bench) -> None:
    asked = await bench.keep_finished(finished(landscape()))
    assert asked.label is not None
    left, top, right, bottom = asked.label.box
    wrong = asked.label.model_copy(update={"box": (left + 640, top, right + 640, bottom)})
    report, _ = await bench.fails(asked.model_copy(update={"label": wrong}))
    assert report.kind == "INVALID_PARAMETERS"


async def test_image_without_a_label_is_left_as_it_is(bench: Bench) -> None:
    report, message = await bench.fails(task(await bench.keep(png_of(landscape()))))
    assert report.kind == "LABEL_NOT_FOUND"
    assert "left as it is" in message


async def test_lost_image_is_told(bench: Bench) -> None:
    asked = task(await bench.keep(png_of(landscape())))
    await bench.store.delete(asked.source.key)
    report, message = await bench.fails(asked)
    assert report.kind == "INVALID_PARAMETERS"
    assert "was lost" in message
    assert not (bench.root / "artifacts/records").exists()


async def test_label_goes_from_an_image_that_is_thirty_thousand_pixels_wide(bench: Bench) -> None:
    wide = landscape((30_000, 64))
    result = await bench.remove(task(await bench.keep(marked(wide))))
    assert result.removed is not None
    assert result.removed.profile == "ACME IMAGES"
    difference = pixels_of(bench.bytes_of(result)).astype(int) - np.asarray(wide)
    assert np.abs(difference).max() <= 2


async def test_unfit_image_is_refused_by_name(bench: Bench) -> None:
    report, message = await bench.fails(task(await bench.keep(png_of(Image.new("I;16", (64, 64))))))
    assert report.kind == "INVALID_PARAMETERS"
    assert "8 bits per channel" in message


async def test_damaged_image_is_told_without_any_of_our_insides(bench: Bench) -> None:
    data = png_of(landscape())
    source = await put_image(bench.store, "first", data[: len(data) // 2], "image/png", (640, 480))
    report, message = await bench.fails(task(source))
    assert report.kind in ("INVALID_PARAMETERS", "ENGINE_CRASHED")
    assert "/" not in message


async def test_folder_for_temporary_files_that_is_gone_is_told(bench: Bench) -> None:
    asked = await bench.keep_finished(finished(landscape()))
    [own] = (bench.root / "tmp").glob("worker-*")
    own.rmdir()
    report, message = await bench.fails(asked)
    assert report.kind == "STORAGE"
    assert "temporary files could not be written: No such file" in message


async def test_task_of_another_job_is_refused(bench: Bench) -> None:
    asked = task(await bench.keep(marked(landscape())))
    foreign = asked.source.model_copy(update={"key": asked.source.key.replace("first", "other")})
    report, _ = await bench.fails(asked.model_copy(update={"source": foreign}))
    assert report.kind == "INVALID_PARAMETERS"
