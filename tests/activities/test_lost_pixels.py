"""Removing the service's own label where the pixels that were kept of the image were lost."""

from collections.abc import AsyncIterator
from pathlib import Path

import numpy as np
import pytest

from activities.models import RemovalTask, WorkResult
from tests.activities.removal_bench import Bench, finished, landscape, pixels_of, removing


@pytest.fixture
async def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Bench]:
    """See `removing`."""
    async with removing(tmp_path, monkeypatch) as bench:
        yield bench


async def lost(bench: Bench, **settings: object) -> RemovalTask:
    """The wish for a copy of an image labelled with these settings, whose kept pixels are gone."""
    asked = await bench.keep_finished(finished(landscape(), **settings))
    assert asked.label is not None
    await bench.store.delete(asked.label.pristine.key)
    return asked


def only_the_box_is_computed(bench: Bench, asked: RemovalTask, result: WorkResult) -> bool:
    """Whether the copy is the picture but for a rounding in the label's box."""
    assert asked.label is not None
    difference = pixels_of(bench.bytes_of(result)).astype(int) - np.asarray(landscape())
    left, top, right, bottom = asked.label.box
    within = np.abs(difference[top:bottom, left:right]).max() <= 3
    difference[top:bottom, left:right] = 0
    return bool(within and not difference.any())


async def test_label_is_computed_away(bench: Bench) -> None:
    asked = await lost(bench)
    result = await bench.remove(asked)
    assert result.removed is not None
    assert (result.removed.profile, result.removed.method) == ("AI generated", "inverse")
    assert result.removed.is_clean
    assert only_the_box_is_computed(bench, asked, result)


async def test_label_that_is_drawn_no_longer_is_known_as_it_was_drawn(bench: Bench) -> None:
    asked = await lost(
        bench, label_text="Machine made", label_opacity=0.4, label_anchor="bottom-left"
    )
    result = await bench.remove(asked)
    assert result.removed is not None
    assert (result.removed.profile, result.removed.is_clean) == ("Machine made", True)
    assert only_the_box_is_computed(bench, asked, result)


@pytest.mark.parametrize("fault", ["lost", "damaged", "never kept"])
async def test_label_whose_profile_is_lost_too_is_looked_for_as_it_is_drawn_today(
    bench: Bench, fault: str
) -> None:
    asked = await lost(bench)
    assert asked.label is not None
    key = f"labels/{asked.label.profile}.json"
    if fault == "lost":
        await bench.store.delete(key)
    elif fault == "damaged":
        await bench.store.put(key, b"{}")
    else:
        label = asked.label.model_copy(update={"profile": None})
        asked = asked.model_copy(update={"label": label})
    result = await bench.remove(asked)
    assert result.removed is not None
    assert result.removed.profile == "AI generated"
    assert only_the_box_is_computed(bench, asked, result)
