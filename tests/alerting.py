"""A private Prometheus with one rule, and a private Alertmanager that tells a webhook, for tests.

The real servers, on loopback ports, with folders of their own; both are gone when their test ends.
"""

from __future__ import annotations

import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from scripts.components import COMPONENTS
from tests.prometheus import free_port

START_S_MAX = 60.0
RULES = """
groups:
  - name: tests
    interval: 1s
    rules:
      - alert: ServiceDown
        expr: shop_up == 0
        labels: {severity: critical}
        annotations: {summary: "{{ $labels.service }} is down", runbook: "https://me:hunter2@wiki.test/"}
"""


@contextmanager
def alerting(folder: Path, target: int, webhook: str, token: str) -> Iterator[str]:
    """The address of an Alertmanager behind a Prometheus that scrapes a loopback port every second."""
    ports = {"prometheus": free_port(), "alertmanager": free_port()}
    (folder / "token").write_text(token)
    (folder / "rules.yml").write_text(RULES)
    (folder / "alertmanager.yml").write_text(
        "route: {receiver: fleet, group_by: [alertname], group_wait: 0s, group_interval: 1s, repeat_interval: 1h}\n"
        "receivers:\n"
        "  - name: fleet\n"
        "    webhook_configs:\n"
        f"      - url: {webhook}\n"
        "        send_resolved: true\n"
        f"        http_config: {{authorization: {{credentials_file: {folder / 'token'}}}}}\n"
    )
    (folder / "alerting.yml").write_text(
        "global: {scrape_interval: 1s, scrape_timeout: 1s, evaluation_interval: 1s}\n"
        f"rule_files: [{folder / 'rules.yml'}]\n"
        f"alerting: {{alertmanagers: [{{static_configs: [{{targets: ['127.0.0.1:{ports['alertmanager']}']}}]}}]}}\n"
        f"scrape_configs: [{{job_name: tests, static_configs: [{{targets: ['127.0.0.1:{target}']}}],"
        " honor_labels: true}]\n"
    )
    commands = {
        "alertmanager": [
            f"--config.file={folder / 'alertmanager.yml'}",
            f"--storage.path={folder / 'am'}",
            f"--web.listen-address=127.0.0.1:{ports['alertmanager']}",
            "--cluster.listen-address=",
        ],
        "prometheus": [
            f"--config.file={folder / 'alerting.yml'}",
            f"--storage.tsdb.path={folder / 'tsdb'}",
            f"--web.listen-address=127.0.0.1:{ports['prometheus']}",
        ],
    }
    with ExitStack() as running:
        for name, options in commands.items():
            running.enter_context(_server(name, ports[name], options))
        yield f"http://127.0.0.1:{ports['alertmanager']}"


@contextmanager
def _server(name: str, port: int, options: list[str]) -> Iterator[None]:
    binary = COMPONENTS[name].find()
    assert binary is not None
    command = [str(binary), *options, "--log.level=error"]
    server = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        until = time.monotonic() + START_S_MAX
        while not _answers(f"http://127.0.0.1:{port}/-/ready"):
            assert server.poll() is None, f"{name} ended at once"
            assert time.monotonic() < until, f"{name} does not answer"
            time.sleep(0.05)
        yield
    finally:
        server.kill()
        server.wait()


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=1) as answer:
            return int(answer.status) == 200
    except OSError:
        return False
