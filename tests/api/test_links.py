"""Signed links: which are good, for how long, and who can tell."""

import asyncio
from dataclasses import replace
from pathlib import Path
from urllib.parse import parse_qs

import pytest

from activities.artifacts import LocalArtifactStore
from api.links import LinkQuery, Links
from api.refusals import LinkExpired, LinkInvalid, LinksUnreadable

NOW = 1_800_000_123.5


def links(store: LocalArtifactStore, *, now: float = NOW, seconds: int = 3600) -> Links:
    """A process that thinks it is `now`."""
    return Links(store, seconds, lambda: now)


async def signed(by: Links, job_id: str = "a", *, final: bool = False) -> LinkQuery:
    signer = await by.signer()
    assert signer is not None
    parts = parse_qs(signer.query(job_id, final=final))
    assert parts.get("final", ["false"]) == [str(final).lower()]
    return LinkQuery(job_id, final, parts["expires"][0], parts["signature"][0])


@pytest.mark.parametrize("final", [True, False])
async def test_link_is_good_for_every_process(store: LocalArtifactStore, final: bool) -> None:
    link = await signed(links(store), final=final)
    await links(store).check(link)


async def test_altered_link_is_invalid(store: LocalArtifactStore) -> None:
    link = await signed(links(store))
    last = "A" if link.signature[-2] != "A" else "B"
    for altered in (
        replace(link, job_id="b"),
        replace(link, final=True),
        replace(link, expires=str(int(link.expires) + 1)),
        replace(link, expires="0" + link.expires),
        replace(link, expires=""),
        replace(link, expires="٣"),
        replace(link, expires="9" * 400),
        replace(link, signature=""),
        replace(link, signature=link.signature + "="),
        replace(link, signature=link.signature[:-2] + last + link.signature[-1]),
        replace(link, signature="é" * 43),
    ):
        with pytest.raises(LinkInvalid):
            await links(store).check(altered)


async def test_link_of_another_service_is_invalid(
    store: LocalArtifactStore, tmp_path: Path
) -> None:
    foreign = await signed(links(LocalArtifactStore(tmp_path / "foreign")))
    await signed(links(store))
    with pytest.raises(LinkInvalid):
        await links(store).check(foreign)


@pytest.mark.parametrize("seconds", [2, 3, 60, 3600, 86_400])
async def test_link_is_good_for_its_time_and_at_most_half_as_long_again(
    store: LocalArtifactStore, seconds: int
) -> None:
    link = await signed(links(store, seconds=seconds))
    await links(store, now=NOW + seconds - 0.1).check(link)
    with pytest.raises(LinkExpired):
        await links(store, now=NOW + seconds * 1.5 + 0.1).check(link)


async def test_link_stays_the_same_for_half_its_time(store: LocalArtifactStore) -> None:
    start = 1_800_000_000
    first = await signed(links(store, now=start + 1))
    assert await signed(links(store, now=start + 1799)) == first
    assert await signed(links(store, now=start + 1801)) != first


async def test_processes_that_start_at_once_recognise_each_others_links(
    store: LocalArtifactStore,
) -> None:
    processes = [links(store) for _ in range(8)]
    made = await asyncio.gather(*(signed(process) for process in processes))
    for link in made:
        await links(store).check(link)
    later = [await signed(links(store)) for _ in range(3)]
    assert len({link.signature for link in later}) == 1


async def test_key_that_was_made_damaged_is_replaced(
    store: LocalArtifactStore, tmp_path: Path
) -> None:
    link = await signed(links(store))
    [file] = (tmp_path / "artifacts" / "config" / "links").iterdir()
    file.write_text("damaged")
    with pytest.raises(LinkInvalid):
        await links(store).check(link)
    await links(store).check(await signed(links(store)))


async def test_store_that_can_not_be_read_vouches_for_no_link(
    store: LocalArtifactStore, tmp_path: Path
) -> None:
    link = await signed(links(store))
    folder = tmp_path / "artifacts" / "config" / "links"
    folder.rename(tmp_path / "elsewhere")
    folder.write_text("no folder")
    assert await links(store).signer() is None
    with pytest.raises(LinksUnreadable):
        await links(store).check(link)
