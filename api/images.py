"""Finished images, out of the artifact store."""

import asyncio

from activities.artifacts import ArtifactLostError, ArtifactStore, get_image
from activities.refs import ArtifactRef
from api.problems import ArtifactLost, NoImageYet, StoreUnavailable
from workflows.messages import JobView
from workflows.state_machine import JobState

# What an image may be; nothing else goes into a header.
MEDIA_TYPES = ("image/png", "image/jpeg", "image/webp")

_STORE_SECONDS = 10.0


async def read_image(store: ArtifactStore, view: JobView) -> tuple[ArtifactRef, bytes]:
    """A job's image, checked against the recorded hash.

    Raises `NoImageYet`, `ArtifactLost` and `StoreUnavailable`.
    """
    artifact = view.status.result.artifact if view.status.result else None
    if artifact is None and view.state is not JobState.SUCCESS:
        raise NoImageYet(f"The job is {view.state}: it has no image.", view.state)
    if artifact is None or artifact.media_type not in MEDIA_TYPES:
        raise ArtifactLost("The image was made, and the record of it can't be read.")
    try:
        async with asyncio.timeout(_STORE_SECONDS):
            return artifact, await get_image(store, artifact)
    # ValueError: what is recorded is no key at all.
    except (ArtifactLostError, ValueError) as error:
        message = "The image was made, and its bytes were lost since."
        raise ArtifactLost(message) from error
    # A network file system that is gone blocks its readers.
    except TimeoutError as error:
        raise StoreUnavailable("The artifact store doesn't answer.") from error
