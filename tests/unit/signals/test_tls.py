"""A real TLS server on the loopback: who is trusted, who is let in, and secrets that change meanwhile."""

from __future__ import annotations

import base64
import datetime as dt
import ipaddress
import json
import os
import ssl
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import msgspec
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from fleetwarden.adapters.signal_sources.prometheus import MARK, PrometheusSource, read_all
from fleetwarden.domain.signal_file import SourceSpec
from fleetwarden.domain.signals import (
    Aggregation,
    Definition,
    NoSample,
    Pair,
    Reading,
    Sample,
    SignalKind,
    SignalScope,
)

AT = 1_790_000_000.0
PAIR = Pair(service="web", signal="q")
JOBS = Definition(
    name="q",
    kind=SignalKind.QUEUE,
    unit="items",
    scope=SignalScope.SERVICE,
    aggregation=Aggregation.FLEET_TOTAL,
    source="main",
    query="jobs",
    by="service",
)


def certificate(folder: Path, name: str) -> None:
    """A key and a certificate of its own for 127.0.0.1, as `name`.key and `name`.pem."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = dt.datetime.now(dt.UTC)
    address = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    made = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(address, critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    plain = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    (folder / f"{name}.key").write_bytes(key.private_bytes(pem, *plain))
    (folder / f"{name}.pem").write_bytes(made.public_bytes(pem))


class Server:
    """Answers over TLS to whoever sends `allowed`.  `clients`: whose certificate a client has to have."""

    def __init__(self, folder: Path, name: str = "server", clients: str = "") -> None:
        self.allowed = ""
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                self.rfile.read(int(self.headers["Content-Length"]))
                fits = self.headers.get("Authorization", "") == outer.allowed
                part = [("value", "7"), ("at", str(AT))]
                series: list[dict[str, Any]] = [
                    {"metric": {"service": "web", MARK: mark}, "value": [AT, told]} for mark, told in part
                ]
                good = {"status": "success", "data": {"resultType": "vector", "result": series}}
                body = json.dumps(good if fits else {"status": "error", "error": "who are you"}).encode()
                self.send_response(200 if fits else 401)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        class Quiet(ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, request: object, client_address: object) -> None:
                """A handshake that fails is what is tested."""

        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(folder / f"{name}.pem", folder / f"{name}.key")
        if clients:
            context.load_verify_locations(folder / f"{clients}.pem")
            context.verify_mode = ssl.CERT_REQUIRED
        self.server = Quiet(("127.0.0.1", 0), Handler)
        self.server.socket = context.wrap_socket(self.server.socket, server_side=True, do_handshake_on_connect=False)
        self.url = f"https://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True).start()

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("keys")
    for name in ("server", "client", "stranger"):
        certificate(folder, name)
    return folder


@pytest.fixture
def server(keys: Path) -> Iterator[Server]:
    made = Server(keys)
    yield made
    made.close()


def ask(source: PrometheusSource) -> Reading:
    [(found, _)] = read_all([(source, {PAIR: JOBS})])
    return found[PAIR]


def why(reading: Reading) -> str:
    assert isinstance(reading, NoSample), reading
    return reading.reason


@pytest.mark.req("SGP-8")
def test_only_a_server_of_the_declared_authority_is_believed(server: Server, keys: Path) -> None:
    trusting = PrometheusSource(SourceSpec(name="main", url=server.url, ca_file="server.pem"), keys)
    reading = ask(trusting)
    assert isinstance(reading, Sample), reading
    assert reading.value == 7
    for other in ("stranger.pem", ""):
        source = PrometheusSource(SourceSpec(name="main", url=server.url, ca_file=other), keys)
        assert "cannot be asked" in why(ask(source))
        source.close()
    trusting.close()


@pytest.mark.req("SGP-8", "SGP-9")
def test_basic_and_bearer_secrets_are_read_anew_when_their_file_changes(server: Server, keys: Path) -> None:
    secret = keys / "secret.txt"
    base = SourceSpec(name="main", url=server.url, ca_file="server.pem")
    basic = PrometheusSource(msgspec.structs.replace(base, username="me", password_file="secret.txt"), keys)
    bearer = PrometheusSource(msgspec.structs.replace(base, bearer_file="secret.txt"), keys)
    for word in ("first", "second"):
        pair = base64.b64encode(f"me:{word}".encode()).decode()
        for source, header in ((basic, f"Basic {pair}"), (bearer, f"Bearer {word}")):
            secret.write_text("wrong")
            server.allowed = header
            told = why(ask(source))
            assert "401" in told
            assert "wrong" not in told
            secret.write_text(f"{word}\n")
            assert isinstance(ask(source), Sample)
    secret.unlink()
    assert "cannot be asked" in why(ask(bearer))
    basic.close()
    bearer.close()


@pytest.mark.req("SGP-8")
def test_a_client_shows_its_certificate_and_an_exchanged_one_is_used(keys: Path, tmp_path: Path) -> None:
    server = Server(keys, clients="client")
    for name, wanted in (("mine.pem", "stranger.pem"), ("mine.key", "stranger.key"), ("ca.pem", "server.pem")):
        (tmp_path / name).write_bytes((keys / wanted).read_bytes())
    spec = SourceSpec(name="main", url=server.url, ca_file="ca.pem", cert_file="mine.pem", key_file="mine.key")
    source = PrometheusSource(spec, tmp_path)
    assert "cannot be asked" in why(ask(source))
    for kind in ("pem", "key"):
        path = tmp_path / f"mine.{kind}"
        changed = path.stat().st_mtime_ns + 1_000_000_000
        path.write_bytes((keys / f"client.{kind}").read_bytes())
        os.utime(path, ns=(changed, changed))
    assert isinstance(ask(source), Sample)
    source.close()
    server.close()
