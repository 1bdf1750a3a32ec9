"""Three planes on one PostgreSQL, two of them on one host: one leads each pass, however many of them are killed."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable

import pytest

from tests.acceptance.cli.world import Running
from tests.acceptance.planes.world import Host, Hosts, eventually

pytestmark = pytest.mark.needs("postgresql")


def leads(host: Host, plane: Running) -> bool:
    led: bool = host.ask("/status", plane)["controllers"]["fleet_reconciler"]["leads"]
    return led


def newer(hosts: Hosts, token: int) -> Callable[[], bool]:
    return lambda: hosts.lease()[1] > token


@pytest.mark.req("RUN-1", "AUT-20")
def test_of_three_planes_one_leads_and_whoever_is_killed_is_replaced(make_hosts: Callable[..., Hosts]) -> None:
    hosts = make_hosts()
    hosts.both_up()
    living = [(hosts.h1, hosts.h1.plane()), (hosts.h2, hosts.h2.plane()), (hosts.h1, hosts.h1.up())]
    token = hosts.lease()[1]
    while len(living) > 1:
        eventually(lambda: [leads(*one) for one in living].count(True) == 1, hosts.told)
        host, leader = next(one for one in living if leads(*one))
        living.remove((host, leader))
        leader.process.kill()
        leader.process.wait()
        eventually(newer(hosts, token), hosts.told)
        token = hosts.lease()[1]
        eventually(lambda: any(leads(*one) for one in living), hosts.told)
    [(host, plane)] = living
    eventually(lambda: leads(host, plane), hosts.told)
    service = {"h1": "web", "h2": "far"}[host.name]
    os.kill(host.pids(service)[0], signal.SIGKILL)
    eventually(lambda: ("restart_service", service, "succeeded") in hosts.done(), hosts.told)
    assert sorted(hosts.done()) == [
        ("restart_service", service, "succeeded"),
        ("start_service", "far", "succeeded"),
        ("start_service", "web", "succeeded"),
    ]
