"""How long a changed registry takes to be read: text to tree and tree to fleet, for 1,000 and 10,000 services."""

from __future__ import annotations

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from fleetwarden.adapters.files.yaml_tree import parse
from fleetwarden.domain.registry import read_fleet

ENTRY = """  - name: service-{number}
    group: web
    replicas: 2
    process:
      command: [python, server.py, --port, "{{port}}"]
      port: {port}
      health: {{http: "http://127.0.0.1:{{port}}/healthz"}}
"""


def registry(count: int) -> str:
    entries = "".join(ENTRY.format(number=number, port=1_024 + 2 * number) for number in range(count))
    return f"version: 1\ngroups: {{web: {{mode: live}}}}\nservices:\n{entries}"


@pytest.mark.parametrize("count", [1_000, 10_000])
def test_text_to_tree(benchmark: BenchmarkFixture, count: int) -> None:
    text = registry(count)
    tree = benchmark.pedantic(parse, (text, "fleet.yml"), rounds=3)
    assert len(tree.get("services").items()) == count


@pytest.mark.parametrize("count", [1_000, 10_000])
def test_tree_to_fleet(benchmark: BenchmarkFixture, count: int) -> None:
    tree = parse(registry(count), "fleet.yml")
    fleet = benchmark.pedantic(read_fleet, (tree, None, "/etc/fleet", ""), rounds=3)
    assert (len(fleet.services), fleet.problems) == (count, ())
