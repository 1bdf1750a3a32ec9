"""Whose output can be read here, and what is said where it cannot."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from fleetwarden.app.identity import local_admin
from fleetwarden.app.replica_logs import ReplicaLogs
from fleetwarden.controllers.capturing import Capturing
from fleetwarden.domain.errors import NotFound, Refused
from fleetwarden.domain.fleet import Service
from fleetwarden.ports.evidence import InstanceEvidence
from fleetwarden.testing import a_configuration, a_fleet, a_service


class Written:
    """EvidenceSource: one replica that wrote these lines."""

    substrate = "process"

    def capture(
        self, service: Service, only: frozenset[str] | None, *, lines_max: int, bytes_max: int
    ) -> list[InstanceEvidence]:
        assert (only, lines_max, bytes_max) == (None, 100, 16 * 1024)
        return [InstanceEvidence(id="0", status="alive", lines=("up", "token=abcdef"))]


def logs(*, here: bool = True, source: bool = True) -> ReplicaLogs:
    files = SimpleNamespace(current=lambda: a_configuration(a_fleet(a_service("web", process=True))))
    shared = SimpleNamespace(configuration=SimpleNamespace(is_here=lambda _: here))
    return ReplicaLogs(cast(Any, files), Capturing({"process": Written()} if source else {}), cast(Any, shared))


@pytest.mark.req("RUN-5")
def test_lines_are_told_scrubbed() -> None:
    [told] = cast(Any, logs().of(local_admin(), "web"))["instances"]
    assert (told["id"], told["lines"][0], "abcdef" in told["lines"][1]) == ("0", "up", False)


@pytest.mark.req("RUN-5")
def test_what_cannot_be_read_here_is_refused_with_the_reason() -> None:
    with pytest.raises(NotFound, match="no service 'nobody'"):
        logs().of(local_admin(), "nobody")
    with pytest.raises(Refused, match="web runs on host h1") as elsewhere:
        logs(here=False).of(local_admin(), "web")
    assert elsewhere.value.code == "other_host"
    with pytest.raises(Refused, match="its substrate gives none") as silent:
        logs(source=False).of(local_admin(), "web")
    assert silent.value.code == "no_output"
