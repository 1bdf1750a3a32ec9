"""The life of a plane as somebody at a terminal sees it: up, healed, explained, ended, taken over again, stopped."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Iterator

import pytest

from tests.acceptance.cli.world import Running, World, eventually, world_in


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """A world whose plane runs; its tests disturb nothing that another one needs."""
    with world_in(tmp_path_factory.mktemp("shared")) as made:
        made.up(until="Try:")
        yield made


@pytest.fixture
def plane(shared: World) -> Running:
    return shared.planes[0]


@pytest.mark.req("RUN-5", "OBS-2", "REC-3")
def test_up_starts_the_fleet_from_nothing_and_says_so(shared: World, plane: Running) -> None:
    world = shared
    lines = plane.text.splitlines()
    assert lines[0].startswith("fleetwarden 0.")
    assert "SQLite  ·  acting on: process  ·  policy: fleet/policy.yml (1 rule)" in lines[0]
    assert any(line.startswith("✓ web     2 of 2 ready") and "started by policy.yml:3" in line for line in lines)
    assert any(line.startswith("✓ worker  1 of 1 ready") for line in lines)
    assert f"token {plane.token}  (saved in fleet/data/admin.token)" in plane.text
    assert len(world.pids("web")) == 2
    status = world.run("status")
    assert status.lines[0].startswith("2 services · 2 up · acting on process · autoscaler off · last pass ")
    assert status.lines[0].endswith("nothing frozen")


@pytest.mark.req("RUN-5")
def test_everything_it_says_to_try_works_as_printed(shared: World, plane: Running) -> None:
    world = shared
    tries = plane.tries()
    assert len(tries) == 5
    assert tries[0].startswith("kill -9 $(fleetwarden status web --pid 0)")
    before = world.pids("web")
    for line in tries:
        ran = world.shell(line)
        assert (ran.code, ran.err) == (0, ""), line
    world.run("freeze", "off")  # one of the five froze it
    eventually(lambda: len(world.pids("web")) == 2 and world.pids("web") != before)


@pytest.mark.req("RUN-5", "POL-6", "REC-10")
def test_a_killed_replica_comes_back_by_one_governed_action_that_explain_accounts_for(shared: World) -> None:
    world = shared
    done = world.json("executions", "--target", "web", "--kind", "restart_service")["items"]
    killed = int(world.run("status", "web", "--pid", "0").out)
    assert killed in world.pids("web")
    os.kill(killed, signal.SIGKILL)
    eventually(lambda: len(world.pids("web")) == 2 and killed not in world.pids("web"))
    eventually(lambda: world.ask("/services/web")["reason"] == "as declared")
    told = world.run("explain", "web").out
    assert "Wanted: running, 2 replicas, version 1.0 (fleet.yml:3). Existing: 2, ready: 2." in told
    assert "restart web#0: allowed." in told
    assert "rule      policy.yml:3  *_service *, auto, rate 20 per 3600 s" in told
    assert f"budget    {len(done)} of 20 used before it in 3600 s" in told
    assert "killed by signal 9" in told
    restarts = world.json("executions", "--target", "web", "--kind", "restart_service")["items"]
    assert [one["ok"] for one in restarts[: len(restarts) - len(done)]] == [True]


@pytest.mark.req("RUN-5")
def test_every_id_that_is_printed_can_be_given_back(shared: World) -> None:
    world = shared
    for topic in ("decisions", "executions", "actions", "reports", "journal"):
        listed = world.run(topic)
        assert listed.code == 0
        printed = [line.split()[0] for line in listed.lines[1:]]
        assert printed, topic
        shown = world.run(topic, "show", printed[0])
        assert (shown.code, shown.lines[0].split()) == (0, ["id", printed[0]])
    page = world.run("decisions", "list", "--limit", "1")
    more = page.lines[-1].removeprefix("older ones:").strip()
    assert world.shell(more).out.splitlines()[1].split()[0] == f"D-{int(page.lines[1].split()[0][2:]) - 1}"
    unknown = world.run("decisions", "show", "D-999")
    assert (unknown.code, unknown.out) == (1, "")
    assert world.run("decisions", "show", "X-1").code == 2


@pytest.mark.req("RUN-5")
@pytest.mark.req("RUN-5")
def test_json_holds_what_http_answers(shared: World) -> None:
    for words, path in (
        (["decisions"], "/decisions"),
        (["executions", "show", "X-1"], "/executions/X-1"),
        (["freeze"], "/freeze"),
        (["token"], "/tokens"),
        (["explain", "worker"], "/services/worker/explain"),
    ):
        assert _still(shared.json(*words)) == _still(shared.ask(path)), words


def _still(value: object) -> object:
    """Without what is new at every look."""
    if isinstance(value, dict):
        return {name: _still(one) for name, one in value.items() if name not in ("at", "observed_at", "since")}
    return [_still(one) for one in value] if isinstance(value, list) else value


def test_a_second_plane_on_the_same_data_is_refused_and_told_who_holds_it(shared: World, plane: Running) -> None:
    second = shared.run("up")
    assert second.code == 2
    assert f"process {plane.process.pid}" in second.err
    assert plane.url in second.err


def test_a_port_in_use_is_refused_before_anything_is_done(world: World) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        ran = world.run("up", "--port", port)
    assert ran.code == 2
    assert f"port {port} on 127.0.0.1 is in use" in ran.err
    assert "FLEET_HTTP_PORT=" in ran.err
    assert world.pids("web") == []
    assert world.json("decisions")["items"] == []
    assert not list(world.folder.rglob("admin.token")), "a token that was made and never shown is lost"


@pytest.mark.req("RUN-5", "RUN-15")
def test_ctrl_c_leaves_the_services_running_and_the_next_plane_takes_them_over(world: World) -> None:
    plane = world.up(until="Try:")
    before = world.pids("web")
    assert plane.ends(signal.SIGINT) == 0
    assert "2 services keep running, fleetwarden down --services stops them" in plane.text
    assert world.pids("web") == before
    assert world.run("status").code == 1
    again = world.up(until="Try:")
    assert "✓ web     2 of 2 ready   1.0    as declared" in again.text
    assert "token in fleet/data/admin.token" in again.text
    assert world.pids("web") == before


def test_a_second_ctrl_c_does_not_wait(world: World) -> None:
    stubborn = 'sh, -c, "trap : TERM; while true; do sleep 1; done"'
    registry = "version: 1\nservices:\n  - {name: mule, %sprocess: {command: [" + stubborn + "], stop_grace_s: 60}}\n"
    world.write("fleet.yml", registry.replace("%s", ""))
    plane = world.up(until="Try:")
    world.write("fleet.yml", registry.replace("%s", "desired: stopped, "))
    eventually(lambda: [one["state"] for one in world.ask("/actions")["items"]][:1] == ["running"])
    plane.process.send_signal(signal.SIGINT)
    eventually(lambda: "ending:" in plane.text)
    assert plane.ends(signal.SIGINT) == 130
    assert "ended at once" in plane.text


def test_a_killed_plane_is_no_plane_and_another_one_starts(world: World) -> None:
    plane = world.up(until="Try:")
    before = world.pids("web")
    assert plane.ends(signal.SIGKILL) == -signal.SIGKILL
    assert "no plane runs here" in world.run("status").err
    assert world.run("down").out == "nothing runs here\n"
    world.up(until="Try:")
    assert world.pids("web") == before


@pytest.mark.req("RUN-5", "RUN-15")
def test_down_ends_the_plane_and_with_services_also_them(world: World) -> None:
    plane = world.up(until="Try:")
    ended = world.run("down")
    assert ended.code == 0
    assert "the plane has ended; services keep running" in ended.out
    assert plane.process.wait(10) == 0
    assert len(world.pids("web")) == 2
    plane = world.up(until="Try:")
    ended = world.run("down", "--services")
    assert ended.code == 0
    assert ended.lines == ["✓ web stopped", "✓ worker stopped", "the plane has ended"]
    assert plane.process.wait(10) == 0
    assert world.pids("web") + world.pids("worker") == []
    stops = world.json("decisions", "--kind", "stop_service")["items"]
    assert sorted(one["target"] for one in stops) == ["web", "worker"]


@pytest.mark.req("RUN-15")
def test_services_that_a_plane_left_are_stopped_without_one(world: World) -> None:
    world.up(until="Try:").ends(signal.SIGTERM)
    assert len(world.pids("web")) == 2
    ended = world.run("down", "--services")
    assert ended.code == 0
    assert ended.lines[1:] == ["✓ web stopped", "✓ worker stopped", "nothing runs here"]
    assert world.pids("web") + world.pids("worker") == []
    assert world.run("down", "--services").lines[-1] == "nothing runs here"


@pytest.mark.req("REC-14")
def test_the_configuration_is_read_again_on_sighup_and_bad_files_are_named(world: World) -> None:
    world.write(".env", (world.config / ".env").read_text().replace("POLL_S=0.3", "POLL_S=3600"))
    plane = world.up(until="Try:")
    world.write("policy.yml", "version: 1\nrules:\n  - {kind: restart_service, teir: auto}\n")
    checked = world.run("policy", "check")
    assert checked.code == 2
    assert checked.lines[0].startswith("fleet/policy.yml:3  unknown key 'teir' (did you mean 'tier'?)")
    assert "; the policy in force stays sha256:" in checked.lines[-1]
    plane.process.send_signal(signal.SIGHUP)
    told = "policy rejected, the one in force stays policy.yml"
    eventually(lambda: any(told in one for one in world.ask("/status")["warnings"]))
    assert told in world.run("status").out


@pytest.mark.req("ORC-1")
def test_a_dry_run_says_would_everywhere(world: World) -> None:
    world.write(".env", (world.config / ".env").read_text().replace("FLEET_ACTUATOR=process\n", ""))
    plane = world.up(until="Try:")
    assert "acting on: nothing (dry run)" in plane.text
    assert "would start (dry run)" in plane.text
    assert "✓" not in plane.text
    status = world.run("status").out
    assert "dry run: nothing will change" in status
    assert "the actuator is dryrun: nothing will change" in status
    assert "would start web with 2 replicas (dry run)" in world.run("decisions").out
    assert "would start (dry run)" in world.run("executions").out
    assert world.pids("web") == []
    assert plane.ends(signal.SIGTERM) == 0
    assert plane.text.splitlines()[-1] == "the plane has ended"


@pytest.mark.req("ORC-1")
def test_a_reconciler_that_is_off_and_a_scaling_block_that_nothing_consumes_are_named(world: World) -> None:
    world.write(".env", (world.config / ".env").read_text().replace("FLEET_RECONCILER=true", "FLEET_RECONCILER=false"))
    world.write("fleet.yml", REGISTRY_WITH_SCALING)
    world.up()
    told = world.run("status").out
    assert "reconciler off" in told.splitlines()[0]
    assert "! the reconciler is off: nothing is proposed" in told
    assert "! fleet.yml:3: no controller consumes the scaling block" in told


REGISTRY_WITH_SCALING = """\
version: 1
services:
  - name: web
    process: {command: [sleep, "1000"]}
    scaling: {min: 1, max: 3, signal: jobs, target: 10}
"""
