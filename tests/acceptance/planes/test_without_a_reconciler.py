"""Two planes that reconcile nothing: what people have said yes to is done once, by the plane of its host."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.acceptance.planes.world import Host, Hosts, eventually, holds_for

pytestmark = pytest.mark.needs("postgresql")
STARTED = [("start_service", "far", "succeeded"), ("start_service", "web", "succeeded")]


def grant_a_start(host: Host, service: str) -> None:
    """Ask for it as one person and grant it as another, at this host's plane."""
    token = host.ask("/tokens", body={"name": f"asks-for-{service}", "roles": ["operator"]})["secret"]
    wish = {"kind": "start_service", "target": service, "reason": "the day begins"}
    asked = host.ask("/actions", body=wish, token=token)
    assert asked["decision"] == "queue_approval"
    host.ask("/approvals/grant", body={"job_id": asked["approval_id"], "decision": "approved", "reason": "looked"})


@pytest.mark.req("REC-5", "RUN-1")
def test_what_people_grant_is_carried_out_once_though_no_plane_reconciles(make_hosts: Callable[..., Hosts]) -> None:
    hosts = make_hosts()
    hosts.write("policy.yml", "version: 1\n")
    for host in hosts.all:
        host.world.env["FLEET_RECONCILER"] = "false"
        host.up(until="Console ")
    grant_a_start(hosts.h1, "far")  # each at the plane of the other host, or so it is for `web`, which has none yet
    grant_a_start(hosts.h2, "web")
    eventually(lambda: sorted(hosts.done()) == STARTED, hosts.told)
    holds_for(2.5)  # two passes more of whoever may draw grants
    assert sorted(hosts.done()) == STARTED
    assert len(hosts.h2.pids("far")) == 1
    assert len(hosts.h1.pids("web")) + len(hosts.h2.pids("web")) == 2
