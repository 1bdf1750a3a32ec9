"""Connections that are cut, a server that is restarted: planes come back by themselves, and nothing is done twice."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator

import pytest

from tests.acceptance.planes.world import Hosts, eventually
from tests.postgresql import Cluster, cluster

pytestmark = pytest.mark.needs("postgresql")
MakeHosts = Callable[..., Hosts]


@pytest.fixture
def own_server() -> Iterator[Cluster]:
    """A server that no other test uses, to be restarted."""
    with cluster() as running:
        yield running


def kill_and_see_it_repaired(hosts: Hosts) -> None:
    """A process of each host dies; the planes find it, decide and act."""
    before = len(hosts.done())
    for host, service in ((hosts.h1, "web"), (hosts.h2, "far")):
        os.kill(host.pids(service)[0], signal.SIGKILL)
    eventually(lambda: len(hosts.done()) >= before + 2 and hosts.as_declared(hosts.h1), hosts.told)
    eventually(lambda: (len(hosts.h1.pids("web")), len(hosts.h2.pids("far"))) == (2, 1), hosts.told)
    assert sorted(one[:2] for one in hosts.done()[before:]) == [("restart_service", "far"), ("restart_service", "web")]


@pytest.mark.req("RUN-1")
def test_planes_survive_cut_connections_and_a_restart_of_the_database(
    make_hosts: MakeHosts, own_server: Cluster
) -> None:
    hosts = make_hosts(own_server)
    hosts.both_up()
    database = hosts.url.rpartition("/")[2]
    for backend in own_server.backends(database):
        own_server.terminate(backend)
    kill_and_see_it_repaired(hosts)

    own_server.stop(signal.SIGINT)  # fast shutdown: every connection is cut
    own_server.start_again()
    kill_and_see_it_repaired(hosts)
    assert [host.plane().process.poll() for host in hosts.all] == [None, None]
    unknown = hosts.rows("SELECT count(*) FROM outbox WHERE state NOT IN ('succeeded', 'abandoned')")
    assert unknown == [(0,)]
