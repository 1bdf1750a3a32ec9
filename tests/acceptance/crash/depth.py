"""How much of the matrix is run, and on which database."""

from __future__ import annotations

import os

import pytest

__all__ = ["FULL", "KINDS", "ON_BOTH", "ON_BOTH_IN_FULL", "TWICE", "full_only", "on"]

FULL = os.environ.get("FLEETWARDEN_TEST_DEPTH") == "full"
TWICE = os.environ.get("FLEETWARDEN_CRASH_DATABASES") == "both"  # every death of the matrix on each database
KINDS = ("sqlite", "postgresql")


def full_only(what: str) -> pytest.MarkDecorator:
    """Skips in the quick depth, saying what the full one does."""
    return pytest.mark.skipif(not FULL, reason=f"FLEETWARDEN_TEST_DEPTH=full {what}")


def on(database: str) -> list[pytest.MarkDecorator]:
    """The marks of a test on that database."""
    return [pytest.mark.needs("postgresql")] if database == "postgresql" else []


ON_BOTH = pytest.mark.parametrize("database", [pytest.param(kind, marks=on(kind)) for kind in KINDS])
ON_BOTH_IN_FULL = pytest.mark.parametrize(
    "database",
    [KINDS[0], pytest.param(KINDS[1], marks=[*on(KINDS[1]), full_only("runs this on PostgreSQL, too")])],
)
