"""The text of a rule can be read as it was when it decided, whatever the files say by now."""

from __future__ import annotations

import pytest

from fleetwarden.adapters.files.folder import ConfigurationFolder
from fleetwarden.app.rule_texts import rule_text
from fleetwarden.controllers.texts import KeptTexts
from fleetwarden.domain.identifiers import digest
from fleetwarden.domain.policy_default import SHIPPED_TEXT
from fleetwarden.ports.stores import Page
from fleetwarden.store.opening import open_store
from fleetwarden.testing.system import FakeClock
from tests.contract.store.records import decide

pytestmark = pytest.mark.req("RUN-8")
REGISTRY = "version: 1\nservices: [{name: web}]\n"
POLICY = """version: 1
# about the web
rules:
  - kind: restart_service
    target: web
    tier: auto
    rate_limit:
      max: 2
      window_s: 60

  - {kind: scale_service, target: "*",
     tier: forbidden}
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "fleet.yml").write_text(REGISTRY)
    return ConfigurationFolder(FakeClock(), registry=tmp_path / "fleet.yml")


@pytest.fixture
def store(tmp_path):
    opened = open_store(str(tmp_path / "fleet.db"), FakeClock())
    yield opened
    opened.close()


def texts_of(folder):
    return {one.name: (one.kind, one.body, one.digest) for one in folder.current().texts}


def test_what_is_in_force_comes_with_its_texts(folder, tmp_path):
    registry = ("registry", REGISTRY, digest(REGISTRY.encode()))
    shipped = ("policy", SHIPPED_TEXT, digest(SHIPPED_TEXT.encode()))
    assert texts_of(folder) == {"fleet.yml": registry, "shipped default": shipped}
    (tmp_path / "policy.yml").write_text(POLICY)
    assert folder.refresh()
    assert texts_of(folder) == {"fleet.yml": registry, "policy.yml": ("policy", POLICY, folder.current().policy.digest)}


def test_a_file_that_is_broken_leaves_the_text_that_is_in_force(folder, tmp_path):
    (tmp_path / "policy.yml").write_text(POLICY)
    folder.refresh()
    before = texts_of(folder)
    (tmp_path / "policy.yml").write_text("version: 1\nrules: nonsense\n")
    (tmp_path / "fleet.yml").write_text("version: 7\n")
    assert folder.refresh()
    assert texts_of(folder) == before


def test_the_rule_is_told_as_it_was(folder, store, tmp_path):
    (tmp_path / "policy.yml").write_text(POLICY)
    folder.refresh()
    policy = folder.current().policy
    store.transact("keep", lambda tx: KeptTexts().keep(tx, folder.current()))
    wheres = [rule.where for rule in policy.rules]
    (tmp_path / "policy.yml").write_text("version: 1\n")
    assert folder.refresh()

    def told(tx, where, known=policy.digest):
        return rule_text(tx, decide(tx, rule_source=where, policy_digest=known))

    assert [store.transact("ask", lambda tx, where=where: told(tx, where)) for where in wheres] == [
        "- kind: restart_service\n  target: web\n  tier: auto\n  rate_limit:\n    max: 2\n    window_s: 60",
        '- {kind: scale_service, target: "*",\n   tier: forbidden}',
    ]
    for where in ("defaults of policy.yml", "shipped default", "policy.yml:400", "other.yml:4", "policy.yml:0"):
        assert store.transact("ask", lambda tx, where=where: told(tx, where)) is None
    assert store.transact("ask", lambda tx: told(tx, wheres[0], "sha256:unknown")) is None


def test_of_an_override_it_is_the_rule_that_stood_there_then(store):
    def written(tx, tier):
        tx.journal.write(topic="override", actor="ann", subject="o1", summary="", detail={"rule": {"tier": tier}})

    def decided(tx):
        return decide(tx, rule_source="override:o1")

    store.transact("write", lambda tx: written(tx, "auto"))
    first = store.transact("decide", decided)
    store.transact("write", lambda tx: written(tx, "forbidden"))
    second = store.transact("decide", decided)
    assert store.read(lambda tx: [rule_text(tx, one) for one in (first, second)]) == [
        '{"tier":"auto"}',
        '{"tier":"forbidden"}',
    ]


def test_texts_are_told_once_while_they_are_in_force_and_again_when_they_come_back(folder, store, tmp_path):
    kept = KeptTexts()

    def told():
        store.transact("keep", lambda tx: kept.keep(tx, folder.current()))
        entries = store.read(lambda tx: tx.journal.list(Page(kind="configuration")))
        return [one.subject for one in reversed(entries)]

    assert told() == told() == ["shipped default", "fleet.yml"]
    (tmp_path / "policy.yml").write_text(POLICY)
    folder.refresh()
    assert told() == ["shipped default", "fleet.yml", "policy.yml"]
    (tmp_path / "policy.yml").write_text("version: 1\n")
    folder.refresh()
    (tmp_path / "policy.yml").write_text(POLICY)
    told()
    folder.refresh()
    assert told() == ["shipped default", "fleet.yml", "policy.yml", "policy.yml", "policy.yml"]


def test_what_was_rolled_back_is_kept_the_next_time(folder, store):
    kept = KeptTexts()

    def fails(tx):
        kept.keep(tx, folder.current())
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        store.transact("fails", fails)
    store.transact("keep", lambda tx: kept.keep(tx, folder.current()))
    assert store.read(lambda tx: tx.texts.get(digest(REGISTRY.encode()))).name == "fleet.yml"
