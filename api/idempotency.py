"""`Idempotency-Key`: the same request again is answered with the first one's job.

After draft-ietf-httpapi-idempotency-key-header. A key names a job: its id is made from the key, so
that two requests at once can't start two, whichever process they reach. It holds for as long as the
job is known, to Temporal or to the archive.
"""

import hashlib
import json
import re
from dataclasses import dataclass
from typing import Annotated, Self

from fastapi import Header
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel

_LONGEST_KEY = 255
# Printable ASCII; a structured field's string has quotes around it, and escapes within.
_KEY = re.compile(r"[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?")
_QUOTED = re.compile(r'"((?:[^"\\]|\\["\\])*)"')
_WANTED = f"must be 1 to {_LONGEST_KEY} printable ASCII characters"

IdempotencyKey = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        description="The same key and body again give the first job again, for as long as it is "
        "known; another body is refused. Up to 255 printable ASCII characters",
        examples=["8e03978e-40d5-43dd-bc93-6894a57f9324"],
    ),
]


@dataclass(frozen=True)
class Intent:
    """What a request means to do once, however often it is sent."""

    job_id: str
    fingerprint: str

    @classmethod
    def of(cls, key: str, tenant: str, asked: BaseModel, about: str = "") -> Self:
        """Of a key of this tenant's, for a request with this body; raises on a key of no use.

        What was left out of the body is no part of it: who fills it in may choose anew each time.
        `about` is what else belongs to the request, such as the job that it is made to.
        """
        name = f"{tenant}\n{_parsed(key)}"
        sent = asked.model_dump(mode="json", exclude_unset=True)
        body = json.dumps([about, sent], sort_keys=True)
        return cls(_digest(name)[:32], _digest(body))

    def item(self, number: int, asked: BaseModel) -> "Intent":
        """The same for one item of a batch that was sent with a key."""
        sent = asked.model_dump(mode="json", exclude_unset=True)
        name = f"{self.job_id}\n{number}"
        return Intent(_digest(name)[:32], _digest(json.dumps(sent, sort_keys=True)))


def _parsed(key: str) -> str:
    quoted = _QUOTED.fullmatch(key)
    text = re.sub(r"\\(.)", r"\1", quoted[1]) if quoted else key
    if len(text) > _LONGEST_KEY or not _KEY.fullmatch(text):
        raise RequestValidationError([{"loc": ("header", "Idempotency-Key"), "msg": _WANTED}])
    return text


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
