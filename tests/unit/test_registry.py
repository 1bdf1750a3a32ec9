"""The declared fleet: what the registry and its override layer say, and how each mistake is named and contained."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetwarden.adapters.files.yaml_tree import parse
from fleetwarden.domain.errors import Problem
from fleetwarden.domain.fleet import (
    DesiredState,
    Fleet,
    HealthCheck,
    HealthKind,
    Mode,
    ScalingError,
    Service,
    VersionSpec,
)
from fleetwarden.domain.located import located
from fleetwarden.domain.registry import failed_fleet, read_fleet

FOLDER = "/etc/fleet"


def fleet(registry: str, override: str | None = None, previous: Fleet | None = None) -> Fleet:
    layer = parse(override, "desired-state.yml") if override is not None else None
    return read_fleet(parse(registry, "fleet.yml"), layer, FOLDER, "sha256:0", previous)


def services(entries: str, override: str | None = None) -> Fleet:
    """A fleet of these list items; the first item stands in line 3."""
    return fleet(f"version: 1\nservices:\n{entries}", override)


def one(entry: str, override: str | None = None) -> Service:
    """The only service, which has to be good."""
    found = services(f"  - {entry}", override)
    assert found.problems == ()
    assert not found.error
    (service,) = found.services.values()
    return service


def process(block: str, more: str = "") -> Service:
    return one(f"{{name: web, {more} process: {block}}}")


def refused(entry: str, override: str | None = None) -> str:
    """The only finding about the only service `web`, which stands in line 3 and has to be rejected for it."""
    found = services(f"  - {entry}", override)
    assert (dict(found.services), found.rejected, found.error) == ({}, ("web",), "")
    (problem,) = found.problems
    assert problem.reason.startswith("web: ")
    return problem.reason.removeprefix("web: ")


# ------------------------------------------------------------------------------------------------ what is declared
@pytest.mark.req("REC-2")
def test_only_a_name_is_needed_and_means_running_with_one_replica() -> None:
    web = one("name: web")
    assert (web.desired, web.replicas, web.wanted, web.mode) == (DesiredState.RUNNING, 1, 1, Mode.LIVE)
    assert (web.substrate, web.scaling, web.version, web.source) == ("", None, "", "fleet.yml:3")


@pytest.mark.req("REC-2")
def test_a_registry_without_a_version_is_read_as_version_1_and_says_so() -> None:
    found = fleet("services:\n- {name: a}\n- {name: b, replicas: 2}\n")
    assert {name: (s.desired.value, s.replicas, s.scaling) for name, s in found.services.items()} == {
        "a": ("running", 1, None),
        "b": ("running", 2, None),
    }
    assert found.warnings == (Problem("fleet.yml", 1, "version: is missing, read as version: 1"),)
    assert found.error == ""


@pytest.mark.req("REC-8")
def test_zero_replicas_means_zero_in_the_registry_and_in_the_override() -> None:
    assert one("{name: a, replicas: 0}").replicas == 0
    assert one("{name: a, replicas: 4}", "version: 1\nservices: [{name: a, replicas: 0}]").replicas == 0


def test_a_whole_process_block_is_read() -> None:
    block = (
        '{command: [python, app.py, "--port={port}"], port: 9100, cwd: "../app/{name}", env: {A: "1", EMPTY: ""},'
        ' health: {http: "http://127.0.0.1:{port}/healthz", timeout_s: 1, failures: 3, start_grace_s: 0},'
        " host: h1, stop_grace_s: 2.5}"
    )
    spec = process(block, 'replicas: 3, version: "1.10",').process
    assert spec is not None
    assert spec.command == ("python", "app.py", "--port={port}")
    assert (spec.port, spec.host, spec.stop_grace_s) == (9100, "h1", 2.5)
    assert spec.cwd == "/etc/app/{name}"
    assert spec.env == {"A": "1", "EMPTY": ""}
    assert spec.health == HealthCheck(
        kind=HealthKind.HTTP, http="http://127.0.0.1:{port}/healthz", timeout_s=1, failures=3, start_grace_s=0
    )


def test_a_bare_process_block_runs_in_the_configuration_folder_and_is_well_while_alive() -> None:
    web = process("{command: [sleep, inf]}")
    assert web.substrate == "process"
    assert web.process is not None
    assert (web.process.cwd, web.process.port, web.process.host) == (FOLDER, None, "")
    assert (web.process.health, web.process.stop_grace_s) == (HealthCheck(), 10.0)


@pytest.mark.parametrize(
    ("health", "expected"),
    [
        ("alive", HealthCheck()),
        ("{tcp: 80}", HealthCheck(kind=HealthKind.TCP, tcp="80")),
        ('{tcp: "{port}"}', HealthCheck(kind=HealthKind.TCP, tcp="{port}")),
        ('{command: [check, "{index}"]}', HealthCheck(kind=HealthKind.COMMAND, command=("check", "{index}"))),
        ("{http: https://h/x?a=b}", HealthCheck(kind=HealthKind.HTTP, http="https://h/x?a=b")),
    ],
)
def test_each_kind_of_health_check_is_read(health: str, expected: HealthCheck) -> None:
    web = process(f"{{command: [x], port: 80, health: {health}}}")
    assert web.process is not None
    assert web.process.health == expected


def test_a_group_gives_its_mode_and_a_service_may_have_its_own() -> None:
    found = fleet(
        "version: 1\ngroups: {web: {mode: observe}, db: {}, none: ~}\nservices:\n"
        "- {name: a, group: web}\n- {name: b, group: web, mode: dry_run}\n"
        "- {name: c, group: db}\n- {name: d, group: none}\n"
    )
    assert found.problems == ()
    assert {name: service.mode.value for name, service in found.services.items()} == {
        "a": "observe", "b": "dry_run", "c": "live", "d": "live",
    }  # fmt: skip
    assert found.groups == {"web": Mode.OBSERVE, "db": None, "none": None}


# ------------------------------------------------------------------------------------------------ the override layer
@pytest.mark.req("REC-2")
def test_the_override_layer_sets_count_state_and_version_of_single_services() -> None:
    override = 'version: 1\nservices:\n- {name: a, replicas: 3, version: "2.0"}\n- {name: b, desired: stopped}\n'
    found = services('  - {name: a, version: "1.0"}\n  - {name: b, replicas: 2}\n  - {name: c}', override)
    assert found.problems == ()
    a, b, c = found.services.values()
    assert (a.replicas, a.version, a.source) == (3, "2.0", "fleet.yml:3, desired-state.yml:3")
    assert (b.replicas, b.desired, b.wanted) == (2, DesiredState.STOPPED, 0)
    assert (c.replicas, c.source) == (1, "fleet.yml:5")


@pytest.mark.req("REC-2")
def test_an_override_of_an_unknown_service_is_a_finding_of_its_own() -> None:
    found = services("  - name: web", "version: 1\nservices: [{name: wbe, replicas: 2}]")
    assert found.problems == (
        Problem("desired-state.yml", 2, "wbe: no such service in the registry (did you mean 'web'?)"),
    )
    assert list(found.services) == ["web"]
    assert found.rejected == ()


@pytest.mark.req("REC-2", "REC-8")
@pytest.mark.parametrize(
    ("override", "reason"),
    [
        ("{name: web, replicas: -1}", "replicas: -1 is out of range"),
        ("{name: web, desired: on}", 'desired: "on" is no state: write running or stopped (here probably running)'),
        ("{name: web, version: 2}", "version: 2 is a number to YAML"),
        ("{name: web, group: x}", "'group' cannot be overridden"),
        ("{name: web, process: {}}", "'process' cannot be overridden"),
        ("{name: web, owner: team}", "'owner' cannot be overridden"),
        ("{name: web, replcas: 1}", "unknown key 'replcas' (did you mean 'replicas'?)"),
    ],
)
def test_a_bad_override_rejects_its_service_instead_of_being_passed_over(override: str, reason: str) -> None:
    found = services("  - name: web\n  - name: db", f"version: 1\nservices: [{override}]")
    assert found.rejected == ("web",)
    assert list(found.services) == ["db"]
    (problem,) = found.problems
    assert (problem.file, problem.line) == ("desired-state.yml", 2)
    assert problem.reason.startswith(f"web: {reason}")


def test_an_overridden_value_has_to_be_valid_too() -> None:
    assert refused("{name: web, replicas: two}", "version: 1\nservices: [{name: web, replicas: 2}]").startswith(
        "replicas"
    )


@pytest.mark.req("REC-8")
def test_doubled_override_entries_reject_their_service() -> None:
    found = services("  - name: web", "version: 1\nservices:\n- {name: web, replicas: 2}\n- {name: web, replicas: 3}\n")
    assert found.rejected == ("web",)
    assert [problem.line for problem in found.problems] == [3, 4]
    assert all("desired-state.yml:3, desired-state.yml:4" in problem.reason for problem in found.problems)


def test_an_override_is_no_reason_to_keep_an_entry_that_is_rejected() -> None:
    found = services("  - {name: web, replcas: 1}", "version: 1\nservices: [{name: web, replicas: 1}]")
    assert (found.rejected, len(found.problems)) == (("web",), 1)


# ------------------------------------------------------------------------------------------------ refused entries
@pytest.mark.req("REC-8")
@pytest.mark.parametrize(
    ("entry", "reason"),
    [
        ("{name: web, replicas: true}", "replicas: true is true/false"),
        ("{name: web, replicas: 1.0}", "replicas: 1.0 is a number"),
        (
            '{name: web, replicas: "2"}',
            'replicas: "2" is text, a whole number from 0 to 100,000 is needed (write it without',
        ),
        ("{name: web, replicas: }", "replicas: nothing is nothing"),
        ("{name: web, replicas: 100001}", "replicas: 100001 is out of range"),
        (
            "{name: web, replicas: 1001, process: {command: [x]}}",
            "replicas: 1001 is out of range, a whole number from 0 to",
        ),
        ("{name: web, desired: off}", 'desired: "off" is no state: write running or stopped (here probably stopped)'),
        ("{name: web, desired: on}", 'desired: "on" is no state: write running or stopped (here probably running)'),
        ("{name: web, desired: false}", "desired: false is no state: write running or stopped (here probably stopped)"),
        ("{name: web, desired: Running}", 'desired: "Running" is no state'),
        ("{name: web, desired: paused}", 'desired: "paused" is no state: write running or stopped'),
        (
            "{name: web, version: 1.10}",
            'version: 1.10 is a number to YAML, a version is text: quote it: version: "1.10"',
        ),
        ("{name: web, version: 2}", 'version: 2 is a number to YAML, a version is text: quote it: version: "2"'),
        ("{name: web, version: true}", 'version: true is true/false, text is needed: quote it: "true"'),
        ('{name: web, version: ""}', "version: empty text"),
        ("{name: web, mode: Live}", 'mode: "Live" is none of observe, dry_run, live'),
        ("{name: web, mode: true}", "mode: true is none of observe, dry_run, live"),
        ("{name: web, group: shop}", "group 'shop' is not declared: add groups: {shop: {}}"),
        ("{name: web, replcas: 2}", "unknown key 'replcas' (did you mean 'replicas'?)"),
        ("{name: web, replicas: 1, replicas: 2}", "key 'replicas' stands here twice"),
        ("{name: web, 7: 2}", "key '7' is a whole number, a key is text"),
        ("{name: web, depends_on: [db]}", "depends_on: no service 'db' in the registry"),
        ("{name: web, depends_on: db}", 'depends_on: "db" is text, a list of services such as [db] is needed'),
        ("{name: web, depends_on: [1]}", "depends_on: 1 is a whole number"),
        ("{name: web, owner: two words}", "owner: 'two words' is no name"),
        ("{name: web, owner: [dba]}", "owner"),
        ("{name: web, match: []}", "match: an empty list"),
        ("{name: web, watch: 7}", "watch"),
        ("{name: web, unit: []}", "unit: a list is a list, a mapping such as {pool: default, headroom: 0} is needed"),
        ("{name: web, unit: {pol: a}}", "unknown key 'pol' (did you mean 'pool'?)"),
        ("{name: web, unit: {headroom: -1}}", "unit.headroom: -1 is out of range"),
        ("{name: web, unit: {burst_units: 1}}", "unit.burst_units is a part of max_units, which is missing"),
        ('{name: web, unit: {maintenance: {window: "22:00-04:00"}}}', "unit.maintenance: outside is missing: queue"),
        ("{name: web, docker: {}}", "'docker' is not supported yet"),
        ("{name: web, kubernetes: {}}", "'kubernetes' is not supported yet"),
    ],
)
def test_a_bad_value_rejects_its_entry_with_the_reason(entry: str, reason: str) -> None:
    assert refused(entry).startswith(reason)


@pytest.mark.req("ACT-3")
def test_versions_are_listed_with_their_own_commands() -> None:
    block = "{command: [x], port: 80, versions: {'1': {}, '2': {command: [y, '{port}'], irreversible: true}}}"
    spec = process(block, "version: '2',").process
    assert spec is not None
    assert spec.versions == {
        "1": VersionSpec(),
        "2": VersionSpec(command=("y", "{port}"), irreversible=True),
    }
    assert process("{versions: {'1': {command: [x]}}}", "version: '1',").process is not None


@pytest.mark.req("ACT-3")
def test_a_version_that_is_not_listed_is_a_finding_of_the_layer_that_names_it() -> None:
    block = "{command: [x], versions: {'1.0': {}, '1.1': {}}}"
    reason = "version: \"1.2\" is none of the listed versions 1.0, 1.1 (did you mean '1.1'?)"
    assert refused(f"{{name: web, version: '1.2', process: {block}}}") == reason
    layer = "version: 1\nservices:\n  - {name: web, version: '1.2'}"
    found = services(f"  - {{name: web, version: '1.0', process: {block}}}", layer)
    assert [(one.file, one.reason) for one in found.problems] == [("desired-state.yml", f"web: {reason}")]
    newer = services(f"  - {{name: web, version: '1.0', process: {block}}}", layer.replace("1.2", "1.1"))
    assert newer.services["web"].version == "1.1"


@pytest.mark.req("REC-8")
@pytest.mark.parametrize(
    ("block", "reason"),
    [
        ("7", "process: 7 is a whole number"),
        ("{}", "process: command is missing"),
        ("{command: python app.py}", 'command: "python app.py" is text, a list of words is needed'),
        ("{command: []}", "command: an empty list"),
        ("{command: [python, 8000]}", 'command[1]: 8000 is a whole number, text is needed: quote it: "8000"'),
        ("{command: [python, [a]]}", "command[1]: a list, text is needed"),
        ("{command: [x], versions: {}}", "versions: a mapping is a mapping, versions are needed"),
        ("{command: [x], versions: [1.0]}", "versions: a list is a list, versions are needed"),
        ("{command: [x], versions: {1.1: {}}}", "versions: 1.1 is a number to YAML, a version is text: quote it"),
        ("{command: [x], versions: {a: {}}}", "version is missing: the process block lists versions (a)"),
        ("{command: [x], versions: {a: [x]}}", "versions a: a list is a list"),
        ("{command: [x], versions: {a: {}, a: {}}}", "versions: a stands here twice"),
        ("{command: [x], versions: {a: {comand: [x]}}}", "unknown key 'comand' (did you mean 'command'?)"),
        ("{command: [x], versions: {a: {command: []}}}", "versions a command: an empty list"),
        ("{command: [x], versions: {a: {command: ['{prot}']}}}", "versions a command[0]: unknown placeholder {prot}"),
        ("{command: [x], versions: {a: {irreversible: 1}}}", "versions a irreversible: 1 is neither true nor false"),
        ("{versions: {a: {command: [x]}, b: {}}}", "process: command is missing (version b has none)"),
        ("{command: [x], prot: 80}", "unknown key 'prot' (did you mean 'port'?)"),
        ("{command: [x], port: 0}", "port: 0 is out of range"),
        ("{command: [x], port: 65536}", "port: 65536 is out of range"),
        ('{command: [x], port: "80"}', 'port: "80" is text'),
        ("{command: [x], cwd: ~/app}", "cwd: ~ is not expanded"),
        ("{command: [x], env: [A]}", "env: a list is a list"),
        ("{command: [x], env: {A: 1}}", 'env A: a whole number, text is needed: quote it: "…"'),
        ("{command: [x], env: {A: true}}", 'env A: true/false, text is needed: quote it: "…"'),
        ("{command: [x], env: {A: }}", "env A: nothing, text is needed"),
        ("{command: [x], env: {A-B: x}}", 'env: "A-B" is no name of a variable'),
        ("{command: [x], env: {A: x, A: y}}", "env: A stands here twice"),
        ("{command: [x], env: {FLEETWARDEN_INSTANCE: x}}", "env: names that begin with FLEETWARDEN_"),
        ("{command: [x], host: a b}", "host: 'a b' is no host name"),
        ("{command: [x], stop_grace_s: 301}", "stop_grace_s: 301 is out of range"),
        ("{command: [x], stop_grace_s: -1}", "stop_grace_s: -1 is out of range"),
        ("{command: [x], stop_grace_s: .nan}", "stop_grace_s: .nan is out of range"),
        ("{command: [x], health: up}", 'health: "up" is none of alive'),
        (
            "{command: [x], health: {}}",
            "health: one of http, tcp and command is needed (or the word alive), here none of them",
        ),
        (
            "{command: [x], health: {tcp: 1, http: http://h/}}",
            "health: one of http, tcp and command is needed (or the word",
        ),
        ("{command: [x], health: {htpp: http://h/, tcp: 1}}", "unknown key 'htpp' (did you mean 'http'?)"),
        ("{command: [x], health: {http: 127.0.0.1/x}}", 'health http: "127.0.0.1/x" is no URL'),
        ("{command: [x], health: {tcp: 0}}", "health tcp: 0 is out of range"),
        ("{command: [x], health: {tcp: http}}", 'health tcp: "http" is neither a port nor "{port}"'),
        ("{command: [x], health: {command: ls}}", 'health command: "ls" is text'),
        (
            "{command: [x], health: {tcp: 1, timeout_s: 0}}",
            "health timeout_s: 0 is out of range, a number from 0.1 to 60",
        ),
        ("{command: [x], health: {tcp: 1, timeout_s: 61}}", "health timeout_s: 61 is out of range"),
        ("{command: [x], health: {tcp: 1, failures: 11}}", "health failures: 11 is out of range"),
        ("{command: [x], health: {tcp: 1, failures: 1.5}}", "health failures: 1.5 is a number"),
        ("{command: [x], health: {tcp: 1, start_grace_s: 3601}}", "health start_grace_s: 3601 is out of range"),
        (
            '{command: [x, "{prot}"], port: 80}',
            "command[1]: unknown placeholder {prot} (did you mean 'port'?); known are {port}",
        ),
        ('{command: [x, "{port}"]}', "command[1]: {port} is used, but no port is declared"),
        ('{command: [x, "{version}"]}', "command[1]: {version} is used, but no version is declared"),
        ('{command: [x], cwd: "{x}"}', "cwd: unknown placeholder {x}"),
        ('{command: [x], env: {A: "{x}"}}', "env A: unknown placeholder {x}"),
        ('{command: [x], health: {http: "http://h:{port}/"}}', "health http: {port} is used, but no port is declared"),
        ('{command: [x], health: {tcp: "{port}"}}', "health tcp: {port} is used, but no port is declared"),
        ('{command: [x], health: {command: [a, "{x}"]}}', "health command[1]: unknown placeholder {x}"),
    ],
)
def test_a_process_block_that_could_not_be_started_is_refused_when_it_is_read(block: str, reason: str) -> None:
    assert refused(f"{{name: web, process: {block}}}").startswith(reason)


def test_a_value_of_the_environment_never_stands_in_a_message() -> None:
    found = services('  - {name: web, process: {command: [x], env: {SECRET: 815}, health: {command: ["{x}"]}}}')
    assert len(found.problems) == 2
    assert not any("815" in problem.reason for problem in found.problems)


def test_the_last_replica_needs_a_port_too_whoever_sets_the_count() -> None:
    entry = "{name: web, process: {command: [x], port: 65534}"
    assert one(entry + ", replicas: 2}").replicas == 2
    assert refused(entry + ", replicas: 3}").startswith("port: 3 replicas from 65534 on need ports up to 65,536")
    assert refused(entry + "}", "version: 1\nservices: [{name: web, replicas: 3}]").startswith("port: 3 replicas")


def test_a_version_from_the_override_fills_the_placeholder() -> None:
    entry = '{name: web, process: {command: [x, "{version}"]}}'
    assert one(entry, 'version: 1\nservices: [{name: web, version: "2"}]').version == "2"


@pytest.mark.req("REC-8")
def test_every_problem_of_every_entry_is_named_at_its_line_and_good_entries_stand() -> None:
    found = services(
        "  - name: good\n"
        "  - name: web\n    replicas: -1\n    desired: off\n    process:\n      command: [x]\n      port: zero\n"
        "  - name: also-good\n"
        "  - {replicas: 1}\n"
        "  - just-text\n"
        "  - {name: -bad-}\n"
        "  - {name: 42}\n"
    )
    assert list(found.services) == ["good", "also-good"]
    assert found.rejected == ("web",)
    assert [problem.line for problem in found.problems] == [5, 6, 9, 11, 12, 13, 14]
    for problem, reason in zip(
        found.problems[3:],
        [
            "a service without a name",
            "a service is a mapping",
            "'-bad-' is no name",
            "name: 42 is a whole number, text is",
        ],
        strict=True,
    ):
        assert problem.reason.startswith(reason)


@pytest.mark.req("REC-8")
def test_of_two_entries_with_one_name_neither_is_used_and_both_lines_are_named() -> None:
    found = services("  - {name: a, replicas: 2}\n  - name: b\n  - {name: a, replicas: 3}\n")
    assert list(found.services) == ["b"]
    assert found.rejected == ("a",)
    reason = "a: declared more than once (fleet.yml:3, fleet.yml:5): none of them is used"
    assert found.problems == (Problem("fleet.yml", 3, reason), Problem("fleet.yml", 5, reason))


def test_an_undeclared_group_names_the_close_one() -> None:
    found = fleet("version: 1\ngroups: {web: {mode: observe}}\nservices: [{name: a, group: wbe}]")
    assert [problem.reason for problem in found.problems] == ["a: group 'wbe' is not declared (did you mean 'web'?)"]
    assert found.rejected == ("a",)


@pytest.mark.parametrize(
    ("groups", "reason"),
    [
        ("{web: {mode: liv}}", "mode: \"liv\" is none of observe, dry_run, live (did you mean 'live'?)"),
        ("{web: {min_healthy: -1}}", "min_healthy"),
        ("{web: {min_healthy: many}}", "min_healthy"),
        ("{web: live}", 'group web: "live" is text'),
        ("{web: {}, web: {}}", "group 'web' stands here twice"),
    ],
)
def test_a_bad_group_rejects_the_services_in_it_and_no_others(groups: str, reason: str) -> None:
    found = fleet(f"version: 1\ngroups: {groups}\nservices:\n- {{name: a, group: web}}\n- name: b\n")
    assert list(found.services) == ["b"]
    assert found.rejected == ("a",)
    assert found.problems[0].reason.startswith(reason)
    assert found.problems[0].line == 2
    assert found.problems[1] == Problem("fleet.yml", 4, "a: group 'web' is rejected itself (fleet.yml:2)")


# ------------------------------------------------------------------------------------------------ ports
def ports(*blocks: str) -> Fleet:
    lines = [
        f"  - {{name: s{n}, replicas: {block[0]}, process: {{command: [x], {block[1:]}}}}}"
        for n, block in enumerate(blocks)
    ]
    return services("\n".join(lines))


def test_two_services_cannot_have_the_same_port_on_one_host_and_the_later_one_is_refused() -> None:
    found = ports("3port: 9100", "1port: 9102", "1port: 9103")
    assert list(found.services) == ["s0", "s2"]
    assert found.rejected == ("s1",)
    (problem,) = found.problems
    assert problem == Problem(
        "fleet.yml",
        4,
        "s1: port 9102: in use by 's0' (ports 9100 to 9102, fleet.yml:3) on the same host, so this service is not used",
    )


def test_a_service_without_replicas_hides_nobody_elses_ports() -> None:
    assert ports("7port: 79", "0port: 80", "1port: 82").rejected == ("s2",)


def test_ports_do_not_meet_across_hosts_or_where_nothing_runs() -> None:
    assert ports("1port: 80", "1port: 80, host: h2", "1port: 80, host: h3", "0port: 80").problems == ()


@given(st.lists(st.tuples(st.integers(1, 40), st.integers(0, 8)), max_size=15))
def test_the_services_that_stand_never_share_a_port(wanted: list[tuple[int, int]]) -> None:
    found = ports(*(f"{replicas}port: {port}" for port, replicas in wanted))
    used: list[int] = []
    for service in found.services.values():
        assert service.process is not None
        assert service.process.port is not None
        used += range(service.process.port, service.process.port + service.replicas)
    assert len(used) == len(set(used))
    for name in found.rejected:
        port, replicas = wanted[int(name[1:])]
        assert set(range(port, port + replicas)) & set(used)


# ------------------------------------------------------------------------------------------------ scaling blocks
BLOCK = "{max: 6, signal: cpu, target: 50}"


@pytest.mark.req("ASC-2", "AUT-11")
def test_a_scaling_block_is_kept_as_it_was_written_and_typed() -> None:
    found = services(f"  - name: web\n    scaling: {BLOCK}\n")
    scaling = found.services["web"].scaling
    assert scaling is not None
    assert (scaling.raw, scaling.line) == ({"max": 6, "signal": "cpu", "target": 50}, 4)
    assert (scaling.min, scaling.max, scaling.signals[0].target) == (1, 6, 50.0)
    assert found.warnings == ()


def test_ports_of_all_replicas_that_a_block_allows_belong_to_its_service() -> None:
    first = "process: {command: [x], port: 9000}, scaling: {max: 3, signal: cpu, target: 5}"
    second = "process: {command: [x], port: 9002}"
    found = services(f"  - {{name: web, {first}}}\n  - {{name: api, {second}}}\n")
    assert found.rejected == ("api",)
    assert "ports 9000 to 9002" in found.problems[0].reason


@pytest.mark.req("AUT-19", "ASC-2")
@pytest.mark.parametrize(
    "block", ["{max: 3, signal: cpu, target: 0}", "text", "{max: 3, signal: cpu, target: 5, mni: 1}"]
)
def test_an_invalid_block_leaves_its_service_static_and_is_named(block: str) -> None:
    found = services(f"  - name: web\n    replicas: 2\n    scaling: {block}\n")
    web = found.services["web"]
    assert (web.scaling, web.replicas) == (None, 2)
    assert isinstance(web.scaling_error, ScalingError)
    (warning,) = found.warnings
    assert (warning.line, found.problems) == (5, ())
    assert warning.reason.startswith("web: scaling")
    assert warning.reason.endswith("the block is not used: its replica count stays as declared")


@pytest.mark.req("AUT-1")
def test_an_external_writer_of_a_local_process_is_an_invalid_block() -> None:
    web = one(f"{{name: web, process: {{command: [x]}}, scaling: {BLOCK[:-1]}, controller_mode: hpa}}}}")
    assert web.scaling is None
    assert web.scaling_error is not None
    assert (web.scaling_error.field, web.scaling_error.line) == ("controller_mode", 3)


@pytest.mark.req("ASC-2")
def test_the_override_switches_a_block_off_or_brings_its_own() -> None:
    entry = f"{{name: web, scaling: {BLOCK}}}"
    assert one(entry, "version: 1\nservices: [{name: web, scaling: null}]").scaling is None
    brought = one(entry, "version: 1\nservices: [{name: web, scaling: {max: 9, signal: cpu, target: 5}}]").scaling
    assert brought is not None
    assert brought.raw["max"] == 9


@pytest.mark.req("ASC-20")
def test_an_invalid_block_of_the_override_never_reveals_the_registrys() -> None:
    web = one(f"{{name: web, scaling: {BLOCK}}}", "version: 1\nservices: [{name: web, scaling: {max: 9}}]")
    assert web.scaling is None
    assert web.scaling_error is not None
    assert web.scaling_error.file == "desired-state.yml"


@pytest.mark.req("AUT-25")
def test_a_block_that_becomes_invalid_on_reload_still_holds_the_count() -> None:
    first = services(f"  - {{name: web, scaling: {BLOCK}}}")
    entry = "version: 1\nservices: [{name: web, scaling: {max: 0}}]"
    second = fleet(entry, previous=first)
    third = fleet(entry, previous=second)
    for found in (second, third):
        assert found.services["web"].scaling == first.services["web"].scaling
        assert found.services["web"].scaling_error is not None
        assert found.warnings[0].reason.endswith("its replica count is held, as under the last valid block")
    assert fleet("version: 1\nservices: [{name: web}]", previous=first).services["web"].scaling is None


# ------------------------------------------------------------------------------------------------ a wrong top level
@pytest.mark.req("REC-2", "REC-8")
@pytest.mark.parametrize(
    ("text", "line", "reason"),
    [
        ("", 1, "no services: the file needs a list"),
        ("version: 1", 1, "no services: the file needs a list"),
        ("version: 1\nservices:", 2, "services: nothing is nothing, a list is needed"),
        ("version: 1\nservices: {web: {}}", 2, "services: a mapping is a mapping, a list is needed"),
        ("- name: web", 1, "the file is a list, a mapping with services: is needed"),
        ("just text", 1, 'the file is "just text"'),
        ("version: 2\nservices: []", 1, "version: 2 is unknown, this release reads version: 1"),
        ('version: "1"\nservices: []', 1, 'version: "1" is unknown'),
        ("version: true\nservices: []", 1, "version: true is unknown"),
        ("version: 1\nservises: []", 2, "unknown key 'servises' (did you mean 'services'?)"),
        ("version: 1\nservices: []\nservices: []", 3, "key 'services' stands here twice"),
        (
            "version: 1\ngroups: [web]\nservices: [{name: a}]",
            2,
            "groups: a list is a list, a mapping of names is needed",
        ),
    ],
)
def test_a_wrong_top_level_is_an_error_and_never_a_smaller_fleet(text: str, line: int, reason: str) -> None:
    found = fleet(text)
    assert found.error
    assert not found.services
    assert (found.problems[0].file, found.problems[0].line) == ("fleet.yml", line)
    assert found.problems[0].reason.startswith(reason)
    assert str(found.problems[0]) in found.error


@pytest.mark.req("REC-2")
@pytest.mark.parametrize(
    "override", ["", "services: {}", "version: 3\nservices: []", "version: 1\ngroups: {}\nservices: []"]
)
def test_a_wrong_top_level_of_the_override_is_an_error_of_the_whole(override: str) -> None:
    found = services("  - name: web", override)
    assert found.error
    assert not found.services
    assert {problem.file for problem in found.problems} == {"desired-state.yml"}


def test_an_empty_list_of_services_is_taken_at_its_word_and_named() -> None:
    found = fleet("version: 1\nservices: []")
    assert (found.error, dict(found.services)) == ("", {})
    assert found.warnings == (Problem("fleet.yml", 2, "services: an empty list, so nothing is declared here"),)


def test_a_failed_fleet_tells_the_first_problem_and_counts_the_others() -> None:
    found = failed_fleet([Problem("b.yml", 1, "worse"), Problem("a.yml", 2, "bad")], "sha256:1")
    assert found.error == "the registry cannot be used: a.yml:2  bad (and 1 more)"
    assert found.digest == "sha256:1"


# ------------------------------------------------------------------------------------------------ all inputs
KEYS = [
    "name",
    "replicas",
    "process",
    "command",
    "port",
    "health",
    "http",
    "tcp",
    "env",
    "scaling",
    "max",
    "group",
    "x",
]
SCALARS = st.none() | st.booleans() | st.integers(-5, 70_000) | st.floats() | st.text(max_size=6)
VALUES: st.SearchStrategy[Any] = st.recursive(
    SCALARS | st.sampled_from(["{port}", "off", "running", "alive"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=5),
    max_leaves=12,
)
FIELDS = st.sampled_from(["replicas", "desired", "version", "group", "mode", "process", "scaling"])
ENTRIES = st.dictionaries(FIELDS, VALUES, max_size=4).map(lambda fields: {"name": "web"} | fields)


@given(st.lists(VALUES | ENTRIES, max_size=4), VALUES)
def test_whatever_stands_in_the_files_the_answer_is_a_fleet_with_every_mistake_named(
    entries: list[Any], layer: Any
) -> None:
    registry = located({"version": 1, "groups": {"g": {}}, "services": entries}, "fleet.yml", 1)
    for override in (None, located(layer, "desired-state.yml", 1)):
        found = read_fleet(registry, override, FOLDER, "sha256:0")
        assert not (found.error and found.services)
        assert bool(found.error) <= bool(found.problems)
        assert len(found.services) + len(found.problems) >= len(entries) or found.error
        assert not set(found.services) & set(found.rejected)
        for service in found.services.values():
            assert 0 <= service.replicas <= 100_000
            assert service.process is None or service.process.command


@pytest.mark.req("POL-15")
def test_a_group_says_how_many_of_its_services_must_stay_healthy() -> None:
    found = fleet("version: 1\ngroups: {web: {min_healthy: 2}, db: {}}\nservices:\n- {name: a, group: web}\n")
    assert found.problems == ()
    assert found.min_healthy == {"web": 2}
