"""Beyond its own machine a plane answers by TLS, or its declared proxy; nobody else, and never by accident."""

from __future__ import annotations

import ssl
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from ipaddress import ip_network
from pathlib import Path

import httpx2
import pytest
from starlette.testclient import TestClient

from fleetwarden.app.settings import load_settings
from fleetwarden.domain.errors import Misconfigured
from fleetwarden.web import server
from fleetwarden.web.proxy import BehindProxy
from tests.acceptance.http.world import World

PATIENCE_S = 30


@contextmanager
def served(world: World, host: str, beyond: server.Beyond) -> Iterator[str]:
    urls: list[str] = []
    ready, ends = threading.Event(), threading.Event()

    def on_ready(url: str) -> None:
        urls.append(url)
        ready.set()

    thread = threading.Thread(
        target=lambda: server.serve(world.plane, host=host, port=0, on_ready=on_ready, ends=ends, beyond=beyond)
    )
    thread.start()
    try:
        assert ready.wait(PATIENCE_S)
        yield urls[0]
    finally:
        ends.set()
        thread.join(PATIENCE_S)


@pytest.fixture
def certificate(tmp_path: Path) -> tuple[Path, Path]:
    made = tmp_path / "cert.pem", tmp_path / "key.pem"
    asked = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=localhost"
    where = ["-addext", "subjectAltName=IP:127.0.0.1", "-out", str(made[0]), "-keyout", str(made[1])]
    subprocess.run(["openssl", *asked.split(), *where], check=True, capture_output=True)
    return made


@pytest.mark.req("RUN-14")
def test_with_a_certificate_it_answers_by_tls_and_only_so(world: World, certificate: tuple[Path, Path]) -> None:
    with served(world, "0.0.0.0", server.Beyond(*certificate)) as url:
        assert url.startswith("https://127.0.0.1:")
        trusting = ssl.create_default_context(cafile=str(certificate[0]))
        with httpx2.Client(verify=trusting, trust_env=False) as client:
            assert client.get(f"{url}/livez").json() == {"status": "alive"}
        with httpx2.Client(trust_env=False) as client, pytest.raises(httpx2.HTTPError):
            client.get(url.replace("https://", "http://") + "/livez")


@pytest.mark.req("RUN-14")
def test_a_certificate_that_cannot_be_used_is_refused_before_anything_is_served(world: World, tmp_path: Path) -> None:
    (tmp_path / "cert.pem").write_text("no certificate")
    beyond = server.Beyond(tmp_path / "cert.pem", tmp_path / "cert.pem")
    with pytest.raises(Misconfigured, match="TLS certificate or its key cannot be used"):
        server.serve(world.plane, host="127.0.0.1", port=0, on_ready=lambda _: None, beyond=beyond)


@pytest.mark.req("RUN-14")
@pytest.mark.parametrize(
    ("peer", "status"), [("10.0.0.2", 200), ("127.0.0.1", 200), ("::ffff:10.0.0.2", 200), ("10.0.1.2", 403), ("x", 403)]
)
def test_only_the_declared_proxy_and_this_machine_are_answered(world: World, peer: str, status: int) -> None:
    app = BehindProxy(world.app, [ip_network("10.0.0.0/24")])
    client = TestClient(app, client=(peer, 1234), headers={"X-Forwarded-For": "10.0.0.2"})
    assert client.get("/livez").status_code == status


@pytest.mark.req("RUN-14")
def test_a_page_that_came_by_tls_through_the_proxy_gets_a_cookie_for_tls_only(world: World) -> None:
    app = BehindProxy(world.app, [ip_network("10.0.0.2/32")])
    form = {"token": world.token("ana", "viewer")}
    for scheme, secure in (("https", True), ("http", False)):
        client = TestClient(app, base_url="http://fleet.example", client=("10.0.0.2", 1), follow_redirects=False)
        answer = client.post("/login", data=form, headers={"X-Forwarded-Proto": scheme})
        assert answer.status_code == 303, answer.text
        assert ("Secure" in answer.headers["set-cookie"]) is secure


@pytest.mark.req("RUN-14")
@pytest.mark.parametrize(
    ("env", "told"),
    [
        ("FLEET_HTTP_PROXY=0.0.0.0/0", "is everybody"),
        ("FLEET_HTTP_PROXY=proxy.example", "no address and no network"),
        ("FLEET_HTTP_TLS_CERT_FILE=cert.pem", "belong together"),
    ],
)
def test_half_a_declaration_is_none(tmp_path: Path, env: str, told: str) -> None:
    (tmp_path / ".env").write_text(env)
    with pytest.raises(Misconfigured) as refusal:
        load_settings(tmp_path, {})
    assert told in str(refusal.value)
