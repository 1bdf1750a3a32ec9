"""Approvals, freezes, tokens and refusals, as people meet them on the command line."""

from __future__ import annotations

import os
import signal

import pytest

from tests.acceptance.cli.world import ASKS, AUTO, World, eventually

ONE = """\
version: 1
services:
  - name: web
    process: {command: [sleep, "1000"], stop_grace_s: 2}
"""


@pytest.fixture
def asking(world: World) -> World:
    """One service under a policy that asks a person about everything."""
    world.write("fleet.yml", ONE)
    world.write("policy.yml", ASKS)
    return world


@pytest.mark.req("RUN-5", "POL-7", "POL-8", "POL-17")
def test_a_granted_approval_is_carried_out_once_and_a_rejected_one_never(asking: World) -> None:
    plane = asking.up(until="Try:")
    assert "? web  0 of 1 ready" in plane.text
    grant = plane.tries()[1]
    assert grant == "fleetwarden approvals grant A-1"
    assert "A-1  start_service  web  asked by reconciler" in asking.run("approvals").out
    assert (
        "It would be allowed if: a person grants it (fleetwarden approvals grant A-1)"
        in asking.run("explain", "web").out
    )
    granted = asking.shell(f'{grant} --reason "first start"')
    assert granted.code == 0
    assert "A-1 is granted" in granted.out
    eventually(lambda: len(asking.pids("web")) == 1)
    eventually(lambda: asking.ask("/approvals/A-1")["status"] == "closed")
    shown = asking.run("approvals", "show", "A-1").out
    assert "admin approved" in shown
    assert "first start" in shown
    again = asking.run("approvals", "grant", "A-1")
    assert (again.code, again.out) == (1, "")
    assert "A-1 is closed" in again.err
    assert asking.run("approvals").out == "nothing waits for approval\n"

    [pid] = asking.pids("web")
    os.kill(pid, signal.SIGKILL)
    eventually(lambda: asking.ask("/approvals?status=pending")["items"])
    rejected = asking.run("approvals", "reject", "A-2", "--reason", "not now")
    assert (rejected.code, rejected.lines) == (0, ["A-2 is rejected"])
    assert asking.run("approvals", "grant", "A-2").code == 1
    assert "rejected" in asking.run("approvals", "list", "--state", "rejected").out
    assert asking.pids("web") == []
    assert len(asking.ask("/executions")["items"]) == 1

    assert asking.run("approvals", "grant", "X-1").code == 2
    missing = asking.run("approvals", "show", "A-99")
    assert missing.code == 1
    assert "there is no approval A-99" in missing.err
    wrong = asking.run("approvals", "list", "--state", "open")
    assert wrong.code == 2
    assert "pending, granted, rejected" in wrong.err


@pytest.mark.req("RUN-5", "POL-12")
def test_a_freeze_holds_while_it_lasts_and_is_seen_everywhere(world: World) -> None:
    plane = world.up(until="Try:")
    on = world.run("freeze", "on", "--reason", "lunch [b]", "--for", "2h")
    assert on.code == 0
    assert on.lines[0] == "Frozen: nothing further is begun."
    assert on.lines[1].startswith("  frozen by admin: lunch [b], until ")
    assert on.lines[-1] == "lift it:  fleetwarden freeze off"
    for pid in world.pids("worker"):
        os.kill(pid, signal.SIGKILL)
    eventually(lambda: world.ask("/services/worker")["reason"].startswith("denied, frozen by admin: lunch [b]"))
    status = world.run("status")
    assert "FROZEN: nothing acts" in status.lines[0]
    assert "denied, frozen by admin: lunch [b]" in status.out
    told = world.run("explain", "worker").out
    assert (
        "It would be allowed if: the freeze ends (fleetwarden freeze off, for that of a part with its --group, "
        "--service or --kind; or the FREEZE file is removed)."
    ) in told
    assert plane.ends(signal.SIGTERM) == 0

    assert "frozen by admin: lunch [b]" in world.run("freeze").out  # from the store: no plane runs
    again = world.up(until="Try:")
    assert "! frozen: nothing acts until the freeze is lifted" in again.text
    assert "✗ worker  0 of 1 ready" in again.text
    assert world.run("freeze", "on", "--kind", "deploy_service", "--reason", "release").code == 0
    none = world.run("freeze", "off", "--kind", "stop_service")
    assert (none.code, "no freeze of kind stop_service stands" in none.err) == (1, True), none
    assert world.pids("worker") == []
    off = world.run("freeze", "off")
    assert (off.code, off.lines[0]) == (0, "The whole fleet is not frozen; parts of it are:"), off
    assert off.lines[-2:] == [
        "lift it:  fleetwarden freeze off --kind deploy_service",
        "lift all:  fleetwarden freeze off --all",
    ]
    both = world.run("freeze", "off", "--all", "--kind", "deploy_service")
    assert (both.code, "--all and --kind together" in both.err) == (2, True), both
    rest = world.run("freeze", "off", "--all")
    assert (rest.code, rest.lines[0]) == (0, "Nothing is frozen: what is needed is decided anew on the next pass.")
    told = world.run("journal").out
    assert "admin lifted the freeze of the fleet" in told
    assert "admin lifted every freeze (F-2)" in told
    eventually(lambda: len(world.pids("worker")) == 1)


@pytest.mark.req("POL-12")
def test_a_fleet_can_be_frozen_before_its_first_plane_and_by_a_file(world: World) -> None:
    assert world.run("freeze", "on", "--reason", "not yet").code == 0
    assert world.data.stat().st_mode & 0o777 == 0o700
    (world.config / "FREEZE").touch()
    world.up(until="Try:")
    off = world.run("freeze", "off")
    assert off.code == 1
    assert off.lines[0] == "Still frozen."
    assert "FREEZE: remove it" in off.lines[1]
    assert world.pids("web") == []
    (world.config / "FREEZE").unlink()
    eventually(lambda: len(world.pids("web")) == 2)


@pytest.mark.req("POL-12")
def test_a_freeze_of_what_does_not_exist_freezes_nothing_and_one_of_a_service_just_that(world: World) -> None:
    for scope, name, code in (("--group", "nowhere", 1), ("--kind", "restart_servce", 2)):
        refused = world.run("freeze", "on", scope, name)
        assert (refused.code, "nothing was frozen" in refused.err) == (code, True), refused
    both = world.run("freeze", "on", "--kind", "stop_service", "--service", "web")
    assert (both.code, "a freeze is of one thing" in both.err) == (2, True), both
    assert "nothing is frozen" in world.run("freeze", "status").out
    assert world.run("freeze", "on", "--service", "web").code == 0
    assert "service web" in world.run("freeze", "status").out
    assert world.run("freeze", "off", "--service", "web").code == 0


def test_explain_says_that_nobody_looks_while_the_registry_cannot_be_read(world: World) -> None:
    world.up(until="Try:")
    eventually(lambda: world.ask("/services/worker/explain")["reason"] == "as declared")
    world.write("fleet.yml", "services: [")
    eventually(lambda: "registry is unavailable" in world.ask("/services/worker/explain")["reason"])
    assert "as declared" not in world.run("explain", "worker").out


@pytest.mark.req("RUN-14")
def test_a_rotated_secret_ends_at_once_unless_an_overlap_is_asked_for(world: World) -> None:
    world.up()
    first = world.run("token", "create", "eve", "--role", "viewer").lines[1]
    rotated = world.run("token", "rotate", "eve")
    assert rotated.code == 0, rotated.err
    assert "the old one is revoked" in rotated.out
    second = rotated.lines[1]
    assert world.run("status", FLEET_TOKEN=first).code == 1
    assert world.run("token", "rotate", "eve", "--overlap", "1h").code == 0
    assert world.run("status", FLEET_TOKEN=second).code == 0


@pytest.mark.req("RUN-3", "RUN-14")
def test_a_token_opens_what_its_role_opens_until_it_is_revoked(world: World) -> None:
    plane = world.up()
    made = world.run("token", "create", "eve", "--role", "viewer", "--for", "1h")
    assert made.code == 0
    secret = made.lines[1]
    assert secret.startswith("fw_")
    assert world.run("status", FLEET_TOKEN=secret).code == 0
    refused = world.run("freeze", "on", FLEET_TOKEN=secret)
    assert refused.code == 1
    assert "not allowed: this needs the role operator" in refused.err
    assert world.run("token", "create", "x", "--role", "emperor").code == 2
    kept = world.config / "alerts.token"
    said = world.run("token", "create", "alerts", "--role", "ingest", "--into", str(kept))
    written = kept.read_text().strip()
    assert (said.code, written[:3], written in said.out + said.err) == (0, "fw_", False), said
    assert kept.stat().st_mode & 0o777 == 0o600
    again = world.run("token", "create", "alerts", "--role", "ingest", "--into", str(kept))
    assert (again.code, kept.read_text().strip()) == (1, written)  # a refusal leaves what is there
    assert world.run("token", "create", "y", "--role", "viewer", "--into", str(world.config / "no" / "t")).code == 2
    assert '"y"' not in world.run("token", "list", "--json").out
    assert world.run("token", "revoke", "eve").code == 0
    ended = world.run("status", "--token", secret)
    assert ended.code == 1
    assert "does not know this token" in ended.err
    last = world.run("token", "revoke", "admin")
    assert last.code == 1
    assert "is the last admin token" in last.err
    listed = world.run("token", "list").out
    assert secret not in listed
    assert plane.token not in listed
    assert "revoked" in listed


@pytest.mark.req("RUN-14")
def test_a_lost_admin_token_is_replaced_by_the_owner_of_the_data_folder(world: World) -> None:
    plane = world.up()
    (world.data / "admin.token").unlink()
    assert world.run("status").code == 1
    held = world.run("token", "create", "--local")
    assert held.code == 1
    assert f"process {plane.process.pid} holds the store" in held.err
    assert plane.ends(signal.SIGTERM) == 0
    made = world.run("token", "create", "--local")
    assert made.code == 0
    assert made.lines[0] == "saved in fleet/data/admin.token, where commands look for it"
    assert (world.data / "admin.token").stat().st_mode & 0o777 == 0o600
    again = world.up()
    assert "token in fleet/data/admin.token" in again.text
    assert world.run("status").code == 0


@pytest.mark.req("RUN-14")
def test_an_admin_token_can_be_given_and_is_then_neither_printed_nor_kept(world: World) -> None:
    secret = "fw_given_by_the_environment_0123456789"
    plane = world.up(FLEET_ADMIN_TOKEN=secret)
    assert "token: the one in FLEET_ADMIN_TOKEN" in plane.text
    assert not (world.data / "admin.token").exists()
    assert world.run("status").code == 1
    assert world.run("status", FLEET_TOKEN=secret).code == 0
    assert world.run("status", FLEET_ADMIN_TOKEN=secret).code == 0


@pytest.mark.req("RUN-14")
def test_a_plane_that_died_before_its_first_token_was_valid_locks_nobody_out(world: World) -> None:
    world.data.mkdir(mode=0o700)
    (world.data / "admin.token").write_text("fw_kept_right_before_the_crash_0123456789\n")
    world.up()
    assert world.run("status").code == 0


@pytest.mark.req("RUN-14")
def test_no_secret_is_in_the_log_or_on_a_later_screen(world: World) -> None:
    first = world.up(until="Try:")
    secret = first.token
    made = world.run("token", "create", "eve", "--role", "viewer").lines[1]
    world.run("status", FLEET_TOKEN=made)
    assert first.ends(signal.SIGTERM) == 0
    second = world.up(until="Try:")
    assert secret not in second.text
    for file in world.data.glob("plane.log*"):
        log = file.read_text()
        assert log
        assert secret not in log
        assert made not in log
        assert file.stat().st_mode & 0o777 == 0o600


@pytest.mark.req("RUN-3")
def test_a_plane_that_is_named_gets_the_local_token_only_if_it_is_the_local_one(world: World) -> None:
    plane = world.up()
    assert world.run("--url", plane.url, "status").code == 0
    elsewhere = world.folder / "elsewhere"
    elsewhere.mkdir()
    named = world.run("--config", "elsewhere", "status", "--url", plane.url)
    assert named.code == 1
    assert "does not know this token" in named.err
    assert world.run("--config", "elsewhere", "--url", plane.url, "--token", plane.token, "status").code == 0
    remote = world.run("--config", "elsewhere", "down", FLEET_URL=plane.url, FLEET_TOKEN=plane.token)
    assert remote.code == 0
    assert plane.process.wait(30) == 0


def test_nobody_at_an_address_is_said(world: World) -> None:
    ran = world.run("status", "--url", "http://127.0.0.1:9")
    assert ran.code == 1
    assert "no plane answers at http://127.0.0.1:9" in ran.err


@pytest.mark.req("RUN-15")
def test_a_stop_that_waits_for_a_person_keeps_the_plane_up_and_names_the_command(world: World) -> None:
    world.write("fleet.yml", ONE)
    world.write("policy.yml", AUTO + '  - {kind: stop_service, target: "*", tier: approval_required}\n')
    plane = world.up(until="Try:")
    ran = world.run("down", "--services")
    assert ran.code == 1
    assert ran.lines[0].startswith("✗ web is not stopped: it waits for a person")
    assert ran.lines[0].endswith("fleetwarden approvals grant A-1")
    assert plane.process.poll() is None
    assert len(world.pids("web")) == 1
    own = world.run("approvals", "grant", "A-1")
    assert own.code == 1
    assert "cannot approve it" in own.err
    other = world.run("token", "create", "ana", "--role", "approver").lines[1]
    assert world.run("approvals", "grant", "A-1", FLEET_TOKEN=other).code == 0


def test_python_m_is_the_same_program(world: World) -> None:
    ran = world.shell("python -m fleetwarden status")
    assert ran.code == 1
    assert "→ start one: python -m fleetwarden up" in ran.err


@pytest.mark.req("POL-15", "RUN-5")
def test_a_storm_is_shown_denied_and_closed_by_a_person(world: World) -> None:
    names = ("one", "two", "three")
    services = "".join(f"  - {{name: {name}, process: {{command: [sleep, '600']}}}}\n" for name in names)
    world.write("fleet.yml", f"version: 1\nservices:\n{services}")
    world.write("policy.yml", AUTO)
    world.up(until="Try:")
    eventually(lambda: world.ask("/status")["services_by_status"]["up"] == 3)
    assert world.run("storm").out.strip() == "no storm"
    pids = [pid for name in names for pid in world.pids(name)]
    world.run("freeze", "on", "--reason", "all three fall in one look")
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    eventually(lambda: world.json("storm")["open"] != [])
    world.run("freeze", "off")
    eventually(lambda: "denied, a storm since" in world.run("explain", "two").out)
    assert "3 of 3 services of the fleet are sick" in world.run("status").out
    assert "storm clear" in world.run("explain", "two").out
    assert world.run("storm", "clear").code == 2  # without a reason
    assert world.run("storm", "clear", "--reason", "power is back").code == 0
    eventually(lambda: world.ask("/status")["services_by_status"]["up"] == 3)
    assert world.run("storm").out.strip() == "no storm"


@pytest.mark.req("PLB-4", "RUN-5", "REC-14")
def test_playbooks_are_checked_listed_and_a_broken_file_is_told_of(asking: World) -> None:
    good = "version: 1\nplaybooks:\n  - {name: gentle, on: [grafana], steps: [confirm, {wait: 30}, notify]}\n"
    asking.write("playbooks.yml", good)
    checked = asking.run("playbooks", "check")
    assert (checked.code, "is valid: 1 playbook" in checked.out) == (0, True)
    asking.up(until="Try:")
    listed = asking.run("playbooks").out
    assert "gentle" in listed
    assert "confirm → wait → notify" in listed
    assert "service_down" in listed
    asking.write("playbooks.yml", good.replace("confirm", "konfirm"))
    refused = asking.run("playbooks", "check")
    assert refused.code == 2
    assert "playbooks.yml:3" in refused.err
    assert "did you mean 'confirm'?" in refused.err
    eventually(lambda: "playbooks.yml is rejected, the last good one stays in force" in asking.run("status").out)
    assert "gentle" in asking.run("playbooks").out
    assert "konfirm" in asking.run("doctor").out


@pytest.mark.req("DWH-1", "DWH-7", "RUN-5")
def test_watches_and_quarantines_can_be_listed_and_there_is_nothing_to_clear(world: World) -> None:
    world.write("fleet.yml", ONE)
    world.write("policy.yml", AUTO)
    world.up(until="Try:")
    eventually(lambda: world.json("watches")["items"] != [])
    [watch] = world.json("watches")["items"]
    assert (watch["service"], watch["status"]) == ("web", "running")
    assert watch["id"] in world.run("watches", "list").out
    assert world.run("watches", "show", watch["id"]).code == 0
    assert world.run("quarantine").out.strip() == "nothing is in quarantine"
    nothing = world.run("quarantine", "clear", "web", "--reason", "mended")
    assert nothing.code == 1
    assert "no version of 'web' is in quarantine" in nothing.err
