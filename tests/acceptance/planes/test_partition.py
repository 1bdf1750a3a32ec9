"""Planes on hosts of their own, as network namespaces, and the leader cut off from the database and from the others."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from fleetwarden.domain.identifiers import SECOND
from tests.acceptance.planes.network import Network, network
from tests.acceptance.planes.world import LEASE_S, SLEEPS, Host, Hosts, eventually, holds_for
from tests.postgresql import cluster

pytestmark = pytest.mark.needs("postgresql", "namespaces")
Make = Callable[[int], tuple[Hosts, Network]]


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    """So many hosts in namespaces over an empty database, `web` anywhere and one service that is bound to each host."""
    with ExitStack() as stack:

        def made(many: int) -> tuple[Hosts, Network]:
            names = [f"h{number}" for number in range(1, many + 1)]
            wires = stack.enter_context(network(names))
            server = stack.enter_context(cluster(wires.address, wires.subnet))
            url = server.url(server.empty_database()).replace("127.0.0.1", wires.address)
            bound = [f"  - {{name: on-{one}, process: {SLEEPS.replace('{', f'{{host: {one}, ', 1)}}}" for one in names]
            web = f"  - {{name: web, replicas: 2, process: {SLEEPS}}}"
            registry = "\n".join(["version: 1", "services:", web, *bound, ""])
            hosts = Hosts(tmp_path, url, registry=registry, within=wires.within)
            return stack.enter_context(closing(hosts)), wires

        yield made


def complete(hosts: Hosts) -> bool:
    """Whether the kernel has what the registry says, all of it on the right hosts."""
    bound = all(len(host.pids(f"on-{host.name}")) == 1 for host in hosts.all)
    return bound and sum(len(host.pids("web")) for host in hosts.all) == 2


def of(hosts: Hosts, service: str) -> list[tuple[str, str]]:
    return [(kind, state) for kind, target, state in hosts.done() if target == service]


@pytest.mark.req("RUN-1", "RUN-17", "OBS-2")
@pytest.mark.parametrize("many", [2, 3])
def test_a_leader_that_is_cut_off_is_replaced_acts_on_nothing_and_comes_back(make: Make, many: int) -> None:
    hosts, wires = make(many)
    for host in hosts.all:
        host.up(until="Console ")
    eventually(lambda: complete(hosts) and len(hosts.done()) == many + 1, hosts.told)
    eventually(lambda: {state for _, _, state in hosts.done()} == {"succeeded"}, hosts.told)
    old = hosts.leader()
    others: list[Host] = [host for host in hosts.all if host is not old]
    mine, theirs = f"on-{old.name}", f"on-{others[0].name}"

    wires.cut(old.name)
    eventually(lambda: hosts.leader() in others, hosts.told)
    [was] = hosts.rows("SELECT max(token) FROM leases WHERE cadence = 'fleet_reconciler'")
    assert was[0] >= 2
    os.kill(old.pids(mine)[0], signal.SIGKILL)
    os.kill(others[0].pids(theirs)[0], signal.SIGKILL)
    eventually(
        lambda: of(hosts, theirs) == [("start_service", "succeeded"), ("restart_service", "succeeded")], hosts.told
    )
    holds_for(LEASE_S)
    assert of(hosts, mine) == [("start_service", "succeeded")]  # nobody may start it elsewhere, and its host cannot ask
    assert all(host.pids(mine) == [] for host in hosts.all)
    _, token, _, _ = hosts.lease()

    wires.mend(old.name)
    eventually(
        lambda: of(hosts, mine) == [("start_service", "succeeded"), ("restart_service", "succeeded")], hosts.told
    )
    eventually(lambda: complete(hosts), hosts.told)
    holds_for(LEASE_S)
    assert hosts.leader() in others  # it comes back to stand by
    assert hosts.lease()[1] == token
    assert hosts.lease()[3] - hosts.lease()[2] >= LEASE_S * SECOND
    assert sorted(hosts.done()) == sorted(
        [("start_service", name, "succeeded") for name in ["web", *(f"on-{host.name}" for host in hosts.all)]]
        + [("restart_service", name, "succeeded") for name in (mine, theirs)]
    )
    tokens = hosts.rows("SELECT count(*), count(DISTINCT seq) FROM executions WHERE ok = 1")
    assert tokens == [(many + 3, many + 3)]
