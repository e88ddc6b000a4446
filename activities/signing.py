"""Signing what leaves the service with Content Credentials, where it was told how."""

import importlib
from pathlib import Path
from typing import Protocol

import numpy as np

from activities.errors import WorkError
from activities.imaging.stills import encode_png
from activities.settings import SettingsError


class Signer(Protocol):
    """Signs image files, as the last thing that happens to them. Raises `WorkError`."""

    def sign(self, data: bytes, media_type: str) -> bytes:
        """The file with a statement that a model made the picture."""
        ...

    def sign_edit(self, data: bytes, media_type: str, parent: bytes) -> bytes:
        """The file with a statement that it is its parent without the visible label."""
        ...


class NoSigner:
    """Leaves files as they are."""

    def sign(self, data: bytes, media_type: str) -> bytes:
        """See `Signer.sign`."""
        del media_type
        return data

    def sign_edit(self, data: bytes, media_type: str, parent: bytes) -> bytes:
        """See `Signer.sign_edit`."""
        del media_type, parent
        return data


def open_signer(certificates: Path, private_key: Path) -> Signer:
    """A signer with the PEM files of a chain and of its key; raises `SettingsError`."""
    try:
        module = importlib.import_module("activities.imaging.provenance.signer")
    except ImportError as error:
        message = "DARKROOM_C2PA_CERTIFICATES: install the extra `c2pa` to sign images"
        raise SettingsError(message) from error
    pems = _read("CERTIFICATES", certificates), _read("PRIVATE_KEY", private_key)
    try:
        signer: Signer = module.CredentialsSigner(*pems)
        # What is wrong with a certificate is only told when it is used.
        signer.sign(encode_png(np.zeros((8, 8, 3), np.uint8)), "image/png")
    except WorkError as error:
        raise SettingsError(f"DARKROOM_C2PA_CERTIFICATES: {error.message}") from error
    return signer


def _read(name: str, path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise SettingsError(f"DARKROOM_C2PA_{name}: {error.strerror}") from error
