"""Histories write their own account; the product's log is silenced, and put back as it was."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import structlog

from tests.simulation.telling import quiet


@pytest.fixture(autouse=True)
def _silence() -> Iterator[None]:
    before = structlog.get_config()
    quiet()
    yield
    structlog.configure(**before)
