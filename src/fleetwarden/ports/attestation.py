"""Whether a sample is really its source's: the seam for authenticators."""

from __future__ import annotations

from typing import Protocol

from fleetwarden.domain.signal_authority import SentSample

__all__ = ["SignalAuthenticator"]


class SignalAuthenticator(Protocol):
    """Checks one sample's attestation.  Calls come from several threads at once.

    `fixture`: it takes references on trust, for tests; one that does is refused for what is pushed or read remotely.
    """

    fixture: bool

    def problem(self, sample: SentSample) -> str | None:
        """Why the attestation does not hold, in words without secrets, or None if it does."""
