"""Who asked for an unlabelled copy of which image, and who was given it.

Nothing here removes a record: the law wants them kept, and they outlive what they tell of.
"""

import hashlib
from datetime import datetime

from activities.artifacts import ArtifactLostError, ArtifactStore
from activities.values import Model

_RECORDS = "records"


class LabelRecord(Model):
    """That somebody asked for the copy of a job's image without its label, and accepted the terms.

    `removal_job_id` is the job that makes the copy; `image_sha256` is of the labelled image.
    """

    job_id: str
    removal_job_id: str
    tenant: str
    asked_by: str
    asked_at: datetime
    terms_accepted: bool
    image_sha256: str


class DeliveryRecord(Model):
    """That the copy of a job's image was handed out: when first on that day, to whom, and which.

    `by_link`: to whoever had a link that was given to `delivered_to`.
    """

    job_id: str
    removal_job_id: str
    delivered_to: str
    address: str
    delivered_at: datetime
    sha256: str
    by_link: bool = False


def record_key(job_id: str) -> str:
    """Where it stands who asked for a copy of this job's image."""
    return f"{_RECORDS}/{job_id}.json"


async def put_record(store: ArtifactStore, record: LabelRecord) -> None:
    """Keep it; a retry writes the same, and who asks again stands beside who asked before."""
    written = record.model_dump_json(indent=2).encode()
    if await _kept_first(store, record_key(record.job_id), written) != written:
        await store.put(_further_key(record.job_id, written), written)


async def put_delivery(store: ArtifactStore, delivery: DeliveryRecord) -> None:
    """Keep it, once for each recipient and day, before the copy is handed out."""
    await _kept_first(store, _delivery_key(delivery), delivery.model_dump_json(indent=2).encode())


async def _kept_first(store: ArtifactStore, key: str, written: bytes) -> bytes:
    """What is on record there: what was before, or else this."""
    try:
        return await store.get(key)
    except ArtifactLostError:
        await store.put(key, written)
        return written


def _further_key(job_id: str, written: bytes) -> str:
    """One for each time that somebody asked after the first."""
    return f"{_RECORDS}/{job_id}/asked-{hashlib.sha256(written).hexdigest()[:16]}.json"


def _delivery_key(delivery: DeliveryRecord) -> str:
    """One for each recipient, copy and day, however often it is fetched."""
    to = f"{delivery.delivered_to}\n{delivery.address}\n{delivery.sha256}"
    to += "\nlink" if delivery.by_link else ""
    mark = hashlib.sha256(to.encode()).hexdigest()[:16]
    return f"{_RECORDS}/{delivery.job_id}/{delivery.delivered_at:%Y-%m-%d}-{mark}.json"
