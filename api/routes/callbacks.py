"""Callbacks: a job's deliveries, and what a tenant has for all its jobs."""

from typing import Annotated, Any

from fastapi import APIRouter, Path, Response

from api.callback_schemas import (
    CallbackAttemptResponse,
    CallbackEndpointResponse,
    CallbackListResponse,
    CallbackResponse,
    CallbackSecretResponse,
    SetCallbackEndpointRequest,
)
from api.dependencies import JobCallbacksDependency, TenantCallbacksDependency
from api.json_body import JsonRoute
from api.openapi import FAULT, UNAVAILABLE, problem
from api.routes.documented import BODY, INVALID, NOT_FOUND, JobId
from workflows.deliveries import Delivery

router = APIRouter(prefix="/v1", tags=["callbacks"], route_class=JsonRoute, responses={500: FAULT})

CallbackId = Annotated[
    str,
    Path(
        description="The callback's id, which its receiver gets as `webhook-id`",
        examples=["3f0c9a52b1d84e0f8d4c7a6b5e2f1a90.2-success"],
    ),
]

_SENT: dict[int | str, dict[str, Any]] = {
    202: {"description": "It will be sent at once, with the id that it had before"}
}
_NO_ENDPOINT = problem("The tenant has no endpoint")


@router.get(
    "/jobs/{job_id}/callbacks",
    response_model=CallbackListResponse,
    summary="Read a job's callbacks",
    responses={
        200: {"description": "Every attempt to deliver so far"},
        404: NOT_FOUND,
        422: INVALID,
        503: UNAVAILABLE,
    },
)
async def list_callbacks(job_id: JobId, callbacks: JobCallbacksDependency) -> CallbackListResponse:
    """Read what became of each callback of a job. A change of the last moments may be missing."""
    return _present(await callbacks.of_job(job_id))


@router.post(
    "/jobs/{job_id}/callbacks/redeliver",
    status_code=202,
    response_model=CallbackListResponse,
    summary="Send a job's final callback again",
    responses={
        **_SENT,
        404: NOT_FOUND,
        409: problem("The job isn't over, nobody is to be told of it, or it was asked too often"),
        422: INVALID,
        503: UNAVAILABLE,
    },
)
async def redeliver_callbacks(
    job_id: JobId, callbacks: JobCallbacksDependency
) -> CallbackListResponse:
    """Send the callback of the final state again, delivered or not, and begin its retries anew."""
    return _present(await callbacks.send_final_again(job_id))


@router.post(
    "/jobs/{job_id}/callbacks/{callback_id}/redeliver",
    status_code=202,
    response_model=CallbackListResponse,
    summary="Send a callback again",
    responses={
        **_SENT,
        404: problem("There is no job, or no callback of it, with this id"),
        409: problem("It was asked for too often (`REDELIVERED_TOO_OFTEN`)"),
        422: INVALID,
        503: UNAVAILABLE,
    },
)
async def redeliver_callback(
    job_id: JobId, callback_id: CallbackId, callbacks: JobCallbacksDependency
) -> CallbackListResponse:
    """Send one callback again, delivered or not, and begin its retries anew."""
    return _present(await callbacks.send_again(job_id, callback_id))


@router.get(
    "/callback-endpoint",
    response_model=CallbackEndpointResponse,
    summary="Read the endpoint",
    responses={
        200: {"description": "Where the tenant is told of all its jobs"},
        404: _NO_ENDPOINT,
        503: UNAVAILABLE,
    },
)
async def read_endpoint(callbacks: TenantCallbacksDependency) -> CallbackEndpointResponse:
    """Read where the tenant is told of all its jobs, besides each job's own `callback_url`."""
    return CallbackEndpointResponse(**dict(await callbacks.endpoint()))


@router.put(
    "/callback-endpoint",
    response_model=CallbackEndpointResponse,
    summary="Set the endpoint",
    responses={200: {"description": "It is set"}, **BODY, 503: UNAVAILABLE},
)
async def set_endpoint(
    asked: SetCallbackEndpointRequest, callbacks: TenantCallbacksDependency
) -> CallbackEndpointResponse:
    """Set where the tenant is told of all jobs that are started from some seconds later on.

    What is still to be delivered to the endpoint goes to the new address.
    """
    return CallbackEndpointResponse(**dict(await callbacks.set_endpoint(asked)))


@router.delete(
    "/callback-endpoint",
    status_code=204,
    response_class=Response,
    summary="Remove the endpoint",
    responses={204: {"description": "There is none any more"}, 503: UNAVAILABLE},
)
async def remove_endpoint(callbacks: TenantCallbacksDependency) -> None:
    """Remove the endpoint, if there is one. What is still to be delivered to it is not."""
    await callbacks.remove_endpoint()


@router.get(
    "/callback-secret",
    response_model=CallbackSecretResponse,
    summary="Read the signing secret",
    responses={200: {"description": "The secret"}, 503: UNAVAILABLE},
)
async def read_secret(
    callbacks: TenantCallbacksDependency, response: Response
) -> CallbackSecretResponse:
    """Read what all callbacks of the tenant are signed with, after Standard Webhooks."""
    response.headers["Cache-Control"] = "no-store"
    return CallbackSecretResponse(secret=await callbacks.secret())


@router.post(
    "/callback-secret/rotate",
    response_model=CallbackSecretResponse,
    summary="Rotate the signing secret",
    responses={
        200: {"description": "The new secret"},
        409: problem("It was rotated too often within a day (`ROTATED_TOO_OFTEN`)"),
        503: UNAVAILABLE,
    },
)
async def rotate_secret(
    callbacks: TenantCallbacksDependency, response: Response
) -> CallbackSecretResponse:
    """Make another secret. For a day callbacks are signed with the one before, too."""
    response.headers["Cache-Control"] = "no-store"
    return CallbackSecretResponse(secret=await callbacks.rotate_secret())


def _present(deliveries: list[Delivery]) -> CallbackListResponse:
    return CallbackListResponse(callbacks=[_present_one(delivery) for delivery in deliveries])


def _present_one(delivery: Delivery) -> CallbackResponse:
    message = delivery.message
    return CallbackResponse(
        id=message.id,
        type=message.type,
        sequence=message.sequence,
        receiver=message.receiver,
        url=message.url,
        state=delivery.state,
        next_attempt_at=delivery.next_attempt_at,
        attempts=[
            CallbackAttemptResponse(**attempt.model_dump(exclude={"retry_after_seconds"}))
            for attempt in delivery.attempts
        ],
    )
