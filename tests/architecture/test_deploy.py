"""What is shipped for running a plane elsewhere: the unit, the container recipe and the Compose file hold together."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from fleetwarden.app.settings import ALIASES
from tests.architecture.test_tidy import ROOT

DEPLOY = ROOT / "deploy"
UNIT = DEPLOY / "fleetwarden.service"
SECRET = re.compile(r"(?i)(password|token|secret)\s*[:=]\s*[^\s/{$\[]")


def unit() -> dict[str, list[str]]:
    """The lines of [Service], by name."""
    found: dict[str, list[str]] = {}
    section = ""
    for line in UNIT.read_text(encoding="utf-8").splitlines():
        if line.startswith("["):
            section = line
        elif section == "[Service]" and "=" in line and not line.startswith("#"):
            name, _, value = line.partition("=")
            found.setdefault(name, []).append(value)
    return found


def compose() -> dict[str, Any]:
    read: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yml").read_text(encoding="utf-8"))
    return read


def instructions() -> list[tuple[str, str]]:
    """The Containerfile's instructions, continued lines joined."""
    text = re.sub(r"\\\n", " ", (DEPLOY / "Containerfile").read_text(encoding="utf-8"))
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    return [(word.upper(), rest.strip()) for word, _, rest in (line.partition(" ") for line in lines)]


@pytest.mark.req("RUN-15")
def test_stopping_the_unit_leaves_the_services_alone_and_a_mistake_is_not_tried_again() -> None:
    service = unit()
    assert service["KillMode"] == ["process"]
    assert service["OOMPolicy"] == ["continue"]
    assert service["RestartPreventExitStatus"] == ["2"]
    assert int(service["TimeoutStopSec"][0]) > 30  # what a plane takes to let calls end
    assert service["User"] != ["root"]
    assert service["StateDirectoryMode"] == ["0700"]
    names = [one.partition("=")[0] for one in service["Environment"]]
    assert set(names) <= set(ALIASES)


@pytest.mark.req("RUN-15")
@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed")
def test_systemd_finds_nothing_wrong_with_the_unit(tmp_path: Path) -> None:
    program = Path(sys.executable).parent / "fleetwarden"
    text = UNIT.read_text(encoding="utf-8").replace("/opt/fleetwarden/bin/fleetwarden", str(program))
    assert str(program) in text
    (tmp_path / UNIT.name).write_text(text)
    command = ["systemd-analyze", "verify", "--man=no", str(tmp_path / UNIT.name)]
    checked = subprocess.run(command, capture_output=True, text=True, check=False)
    told = [line for line in (checked.stdout + checked.stderr).splitlines() if UNIT.name in line]
    assert told == []
    (tmp_path / UNIT.name).write_text(text.replace("KillMode=process", "KillMode=proces"))
    wrong = subprocess.run(command, capture_output=True, text=True, check=False)
    assert "kill mode" in wrong.stdout + wrong.stderr  # it does look


@pytest.mark.req("RUN-15")
def test_the_image_is_built_from_pinned_parts_and_runs_as_nobody_in_particular() -> None:
    steps = instructions()
    bases = [rest for word, rest in steps if word == "ARG" and rest.startswith("PYTHON=")]
    assert len(bases) == 1
    assert re.fullmatch(r"PYTHON=python:3\.1[1-9](\.\d+)?-slim-[a-z]+", bases[0])
    assert all(rest.split()[0] == "${PYTHON}" for word, rest in steps if word == "FROM")
    final = steps[[index for index, (word, _) in enumerate(steps) if word == "FROM"][-1] :]
    [user] = [rest for word, rest in final if word == "USER"]
    assert re.fullmatch(r"[1-9]\d+:[1-9]\d+", user)
    after_user = [word for word, _ in final[final.index(("USER", user)) :]]
    assert "RUN" not in after_user
    pip = [rest for word, rest in steps if word == "RUN" and "pip install" in rest]
    assert [("--require-hashes" in one, "--no-deps" in one) for one in pip] == [(True, False), (False, True)]
    assert not any(word == "ADD" for word, _ in steps)
    assert {"HEALTHCHECK", "ENTRYPOINT", "STOPSIGNAL", "VOLUME"} <= {word for word, _ in final}


@pytest.mark.req("RUN-15")
def test_everything_that_the_image_is_built_from_is_there_and_let_in() -> None:
    let_in = {line[1:] for line in (DEPLOY / "Containerfile.dockerignore").read_text().splitlines() if line[:1] == "!"}
    copied = [
        name
        for word, rest in instructions()
        if word == "COPY" and not rest.startswith("--from")
        for name in shlex.split(rest)[:-1]
    ]
    assert copied
    for name in copied:
        assert (ROOT / name).exists(), name
        assert name in let_in, name


@pytest.mark.req("RUN-15")
def test_the_compose_file_pins_its_images_and_keeps_secrets_in_files() -> None:
    read = compose()
    for name, service in read["services"].items():
        image, _, tag = service["image"].partition(":")
        assert tag, name
        assert tag != "latest", name
        assert service.get("restart"), name
        assert "privileged" not in service, name
        assert not any("docker.sock" in str(volume) for volume in service.get("volumes", ())), image
        for secret in service.get("secrets", ()):
            assert secret in read["secrets"]
    assert all(one["file"].startswith("./secrets/") for one in read["secrets"].values())
    for file in DEPLOY.iterdir():
        if file.is_file():
            assert not SECRET.search(file.read_text(encoding="utf-8")), file.name


@pytest.mark.req("RUN-15", "RUN-14")
def test_the_plane_in_compose_answers_its_proxy_only_and_knows_all_its_settings() -> None:
    read = compose()
    plane, proxy = read["services"]["plane"], read["services"]["proxy"]
    assert set(plane["environment"]) <= set(ALIASES)
    assert "ports" not in plane
    assert plane["environment"]["FLEET_HTTP_PROXY"] == proxy["networks"]["inside"]["ipv4_address"]
    for name, value in plane["environment"].items():
        if name.endswith("_FILE"):
            assert value.removeprefix("/run/secrets/") in plane["secrets"]
    assert plane["read_only"] is True
    assert plane["cap_drop"] == ["ALL"]
    assert "deploy/secrets/" in (ROOT / ".gitignore").read_text()


@pytest.mark.req("RUN-15")
def test_every_file_for_deployment_has_its_page() -> None:
    pages = "\n".join(page.read_text(encoding="utf-8") for page in (ROOT / "docs" / "how-to").glob("*.md"))
    for file in DEPLOY.iterdir():
        if file.is_file() and file.suffix != ".dockerignore":
            assert f"deploy/{file.name}" in pages, file.name
