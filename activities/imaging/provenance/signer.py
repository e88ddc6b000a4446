"""A signer of Content Credentials, with the extra `c2pa` only."""

from activities.errors import ErrorKind, WorkError
from activities.imaging.provenance.credentials import (
    CredentialsError,
    SigningIdentity,
    sign,
    sign_edit,
)


class CredentialsSigner:
    """Signs with C2PA; see `activities.signing.Signer`. Raises `WorkError`."""

    def __init__(self, certificates: bytes, private_key: bytes) -> None:
        """Both are PEM."""
        try:
            self._identity = SigningIdentity.from_pem(certificates, private_key)
        except CredentialsError as error:
            raise WorkError(ErrorKind.INTERNAL, str(error)) from error

    def sign(self, data: bytes, media_type: str) -> bytes:
        """A model made the picture."""
        try:
            return sign(data, media_type, self._identity)
        except CredentialsError as error:
            raise WorkError(ErrorKind.INTERNAL, str(error)) from error

    def sign_edit(self, data: bytes, media_type: str, parent: bytes) -> bytes:
        """The picture is its parent's, without the visible label."""
        try:
            return sign_edit(data, media_type, parent, media_type, self._identity)
        except CredentialsError as error:
            raise WorkError(ErrorKind.INTERNAL, str(error)) from error
