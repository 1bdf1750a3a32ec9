"""Two planes on one PostgreSQL: one leads, each host's own plane looks and acts, and whoever dies is replaced."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Callable

import pytest

from fleetwarden.domain.identifiers import SECOND
from tests.acceptance.cli.world import Running
from tests.acceptance.planes.world import LEASE_S, STUBBORN, Hosts, eventually, holds_for

pytestmark = pytest.mark.needs("postgresql")
MakeHosts = Callable[..., Hosts]


def leads(hosts: Hosts, plane: Running) -> bool:
    """Whether a plane of the first host says that it leads the reconciler's passes."""
    return bool(hosts.h1.ask("/status", plane)["controllers"]["fleet_reconciler"]["leads"])


@pytest.mark.req("RUN-1", "RUN-17", "OBS-2")
def test_the_leader_proposes_and_the_plane_of_the_host_carries_out(make_hosts: MakeHosts) -> None:
    hosts = make_hosts()
    first = hosts.h1.up(until="Console ")
    eventually(lambda: len(hosts.h1.pids("web")) == 2, hosts.told)
    eventually(lambda: hosts.h1.services()["web"]["status"] == "up", hosts.told)
    far = hosts.h1.services()["far"]
    assert (far["observed"], far["reason_code"]) == (None, "host_silent")
    assert "no plane of host h2 was ever heard of: its services are unobserved" in hosts.h1.ask("/status")["warnings"]

    second = hosts.h2.up()
    assert re.search(r"✓ web +2 of 2 ready", second.text), second.text
    eventually(lambda: hosts.as_declared(hosts.h1) and hosts.as_declared(hosts.h2), hosts.told)
    assert (len(hosts.h1.pids("web")), len(hosts.h2.pids("web"))) == (2, 0)
    assert (len(hosts.h1.pids("far")), len(hosts.h2.pids("far"))) == (0, 1)
    assert hosts.done() == [("start_service", "web", "succeeded"), ("start_service", "far", "succeeded")]
    fences = dict(hosts.rows("SELECT target, fence::json->>'shard' FROM outbox"))
    assert fences == {"web": "h1", "far": "h2"}
    assert hosts.rows("SELECT service, host FROM placements") == [("web", "h1")]
    leads = [host.ask("/status")["controllers"]["fleet_reconciler"]["leads"] for host in hosts.all]
    assert leads == [True, False]

    for host, service in ((hosts.h1, "web"), (hosts.h2, "far")):
        os.kill(host.pids(service)[0], signal.SIGKILL)
    eventually(lambda: len(hosts.done()) == 4 and hosts.as_declared(hosts.h2), hosts.told)
    eventually(lambda: hosts.as_declared(hosts.h1), hosts.told)
    assert (len(hosts.h1.pids("web")), len(hosts.h2.pids("far"))) == (2, 1)
    assert sorted(hosts.done()[2:]) == [
        ("restart_service", "far", "succeeded"),
        ("restart_service", "web", "succeeded"),
    ]
    assert [plane.ends(signal.SIGTERM) for plane in (second, first)] == [0, 0]


@pytest.mark.req("RUN-1", "OBS-2")
def test_a_leader_that_is_killed_is_replaced_and_what_it_ran_is_taken_up_again(make_hosts: MakeHosts) -> None:
    hosts = make_hosts(interval_s=60.0)  # leases must not live as long as two intervals
    hosts.both_up()
    assert hosts.leader() is hosts.h1
    web = hosts.h1.pids("web")
    hosts.h1.plane().process.kill()
    hosts.h1.plane().process.wait()
    _, token, _, expires_at = hosts.lease()
    eventually(lambda: hosts.leader() is hosts.h2, hosts.told)
    _, next_token, acquired_at, _ = hosts.lease()
    assert next_token == token + 1
    assert 0 <= acquired_at - expires_at < 10 * LEASE_S * SECOND  # far from an interval, on however busy a machine
    os.kill(hosts.h2.pids("far")[0], signal.SIGKILL)
    eventually(lambda: ("restart_service", "far", "succeeded") in hosts.done(), hosts.told)

    assert hosts.h1.pids("web") == web  # silence is not death: nobody else has started them
    hosts.h1.up()
    eventually(lambda: hosts.as_declared(hosts.h2) and hosts.as_declared(hosts.h1), hosts.told)
    assert hosts.h1.pids("web") == web
    assert [one for one in hosts.done() if one[1] == "web"] == [("start_service", "web", "succeeded")]
    assert hosts.leader() is hosts.h2


@pytest.mark.req("RUN-1", "RUN-17", "PRO-11")
def test_a_leader_that_was_stopped_wakes_up_under_an_old_token_and_does_nothing_more(make_hosts: MakeHosts) -> None:
    """Stopped in the middle of an action, with another plane of the same host to take over its executor."""
    registry = f"version: 1\nservices:\n  - {{name: stubborn, process: {STUBBORN}}}\n"
    hosts = make_hosts(registry=registry)
    first = hosts.h1.up()
    second = hosts.h1.up()
    [pid] = hosts.h1.pids("stubborn")
    assert hosts.lease()[1] == 1
    hosts.write("fleet.yml", registry.replace("{name: stubborn,", "{name: stubborn, desired: stopped,"))
    eventually(lambda: hosts.rows("SELECT 1 FROM outbox WHERE kind = 'stop_service' AND state = 'running'"), hosts.told)
    os.kill(first.process.pid, signal.SIGSTOP)
    assert hosts.h1.pids("stubborn") == [pid]  # it ignores SIGTERM, and whoever would send SIGKILL is stopped

    [(begun, begun_under)] = hosts.rows("SELECT seq, fence::json->>'token' FROM outbox WHERE kind = 'stop_service'")
    eventually(lambda: hosts.lease("action_executor", "h1")[1] > int(begun_under), hosts.told)
    eventually(lambda: hosts.rows("SELECT 1 FROM outbox WHERE seq = %s AND state <> 'running'", [begun]), hosts.told)
    assert hosts.h1.pids("stubborn") == [pid]

    os.kill(first.process.pid, signal.SIGCONT)
    eventually(lambda: "lease lost" in hosts.h1.log() or "outcome arrived late" in hosts.h1.log(), hosts.told)
    eventually(lambda: hosts.h1.pids("stubborn") == [], hosts.told)
    eventually(lambda: hosts.rows("SELECT 1 FROM executions WHERE kind = 'stop_service' AND ok = 1"), hosts.told)
    # either may lead by now, where the machine kept the other one waiting: what counts is that it is one
    eventually(lambda: sum(leads(hosts, plane) for plane in (first, second)) == 1, hosts.told)
    holds_for(LEASE_S)
    assert hosts.rows("SELECT count(*) FROM executions WHERE kind = 'stop_service' AND ok = 1") == [(1,)]
    tokens = hosts.rows(
        "SELECT (fence::json->>'token')::int FROM outbox WHERE started_at IS NOT NULL AND seq > %s", [begun]
    )
    assert all(token > int(begun_under) for (token,) in tokens), tokens


@pytest.mark.req("RUN-1", "RUN-15")
def test_a_host_that_stops_its_services_stops_its_own_and_is_left_in_peace_by_the_leader(make_hosts: MakeHosts) -> None:
    hosts = make_hosts()
    hosts.both_up()
    web = hosts.h1.pids("web")
    down = hosts.h2.world.run("down", "--services")
    assert down.code == 0, down
    assert down.lines[-1] == "the plane has ended"
    holds_for(LEASE_S)  # the leader goes on looking meanwhile
    assert hosts.h2.pids("far") == []
    assert hosts.h1.pids("web") == web
    assert hosts.done()[2:] == [("stop_service", "far", "succeeded")]


@pytest.mark.req("RUN-1")
def test_a_plane_of_the_same_host_with_another_folder_is_refused(make_hosts: MakeHosts) -> None:
    """It would not find the processes of the first, and start all of them a second time."""
    hosts = make_hosts()
    hosts.h1.up(until="Console ")
    refused = hosts.h2.world.run("up", FLEET_HOST="h1")
    assert refused.code == 2
    assert "host h1 is looked after from another data folder" in refused.err
    assert hosts.h2.pids("web") == []
