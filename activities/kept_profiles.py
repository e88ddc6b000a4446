"""The labels that this service has ever drawn, kept in the artifact store, each once.

One that is drawn no longer is still known on the images that carry it.
"""

import hashlib

from activities.artifacts import ArtifactLostError, ArtifactStore
from activities.imaging.labels.profile import LabelProfile


async def keep_profile(store: ArtifactStore, profile: LabelProfile) -> str:
    """Keep a label, unless it is kept already; its sha256. Raises `WorkError` of kind STORAGE."""
    data = profile.model_dump_json().encode()
    sha256 = hashlib.sha256(data).hexdigest()
    try:
        await read_profile(store, sha256)
    except ArtifactLostError:
        await store.put(_key(sha256), data)
    return sha256


async def read_profile(store: ArtifactStore, sha256: str) -> bytes:
    """The profile as JSON, exactly as it was kept, or `ArtifactLostError`."""
    data = await store.get(_key(sha256))
    if hashlib.sha256(data).hexdigest() != sha256:
        raise ArtifactLostError("the stored bytes are not the recorded ones")
    return data


def _key(sha256: str) -> str:
    return f"labels/{sha256}.json"
