"""Authenticators of pushed samples: HMAC-SHA-256 and Ed25519, by key ids, several valid at once.

A source signs with any of its keys, so that a new one can be brought in before the old one goes.  Key files are read
again when they change; one that cannot be read vouches for nobody.  No key and no signature ever enters a message.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from collections.abc import Callable
from pathlib import Path

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from fleetwarden.domain.signal_authority import SentSample, signed_bytes
from fleetwarden.domain.signal_file import AttestationKey, SignalsDocument

__all__ = ["KeyedAuthenticator", "OpaqueReferenceAuthenticator"]


class OpaqueReferenceAuthenticator:
    """Takes any reference on trust.  For fixtures only: what is pushed or remote never goes through it."""

    fixture = True

    def problem(self, sample: SentSample) -> str | None:
        return None if sample.attestation is None or sample.attestation.signature else "an empty reference"


class KeyedAuthenticator:
    """Checks signatures by the keys of the document in force.  `folder`: where key files lie.

    Once any source has keys, every source has to sign: a name that nobody vouches for must not answer beside one that
    somebody does.
    """

    fixture = False

    def __init__(self, document: Callable[[], SignalsDocument], folder: Path) -> None:
        self._document = document
        self._folder = folder

    def problem(self, sample: SentSample) -> str | None:
        declared = self._document().keys
        if sample.attestation is None:
            return "it is not signed, and signals.yml has keys" if declared else None
        keys = declared.get(sample.source, ())
        key = next((one for one in keys if one.id == sample.attestation.key_id), None)
        if key is None:
            return f"no key {sample.attestation.key_id!r} of {sample.source} is known"
        try:
            good = self._good(key, signed_bytes(sample), sample.attestation.signature)
        except (OSError, ValueError, binascii.Error) as error:
            return f"key {key.id} of {sample.source} cannot be used: {type(error).__name__}"
        return None if good else f"the signature does not match key {key.id} of {sample.source}"

    def _good(self, key: AttestationKey, message: bytes, signature: str) -> bool:
        if key.hmac_file:
            secret = (self._folder / key.hmac_file).read_bytes().strip()
            if not secret:
                raise ValueError("an empty key")
            wanted = hmac.new(secret, message, hashlib.sha256).hexdigest()
            return hmac.compare_digest(wanted.encode(), signature.lower().encode())
        public = Ed25519PublicKey.from_public_bytes(base64.b64decode(key.ed25519, validate=True))
        try:
            public.verify(base64.b64decode(signature, validate=True), message)
        except InvalidSignature:
            return False
        return True
