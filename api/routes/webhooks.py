"""What this service sends: documented here, and sent by a worker."""

from typing import Annotated

from fastapi import APIRouter, Header

from workflows.callbacks import CallbackEvent

router = APIRouter()

_Id = Annotated[str, Header(alias="webhook-id", description="The same at every attempt")]
_Timestamp = Annotated[
    str, Header(alias="webhook-timestamp", description="When this attempt was made, in Unix time")
]
_Signature = Annotated[
    str,
    Header(
        alias="webhook-signature",
        description="`v1,` and HMAC-SHA256 in base64, after Standard Webhooks; several with spaces "
        "between them while a secret is rotated",
    ),
]


@router.post(
    "job",
    status_code=204,
    summary="Callback",
    responses={
        204: {"description": "Any 2xx: it has arrived"},
        410: {"description": "Nothing more is wanted; anything else is tried again for three days"},
    },
)
def callback(event: CallbackEvent, id: _Id, timestamp: _Timestamp, signature: _Signature) -> None:
    """Tell of a job's final state, or of each transition, at a `callback_url` or an endpoint.

    At least once, and in any order: `data.transition.sequence` orders what was told of one job.
    """
