"""Checkpoints: signed every hour while something is sealed, with a key for its owner only, and never half a line."""

from __future__ import annotations

import hashlib
import hmac
import stat

import pytest

from fleetwarden.adapters.files.checkpoints import CheckpointFile
from fleetwarden.controllers.sealer import CHECKPOINT_EVERY, Sealer
from fleetwarden.domain.errors import Misconfigured, StoreUnavailable
from fleetwarden.domain.identifiers import SECOND, canonical_json
from fleetwarden.store.opening import open_store
from fleetwarden.testing.system import FakeClock
from tests.contract.store.records import decide

pytestmark = pytest.mark.req("RUN-8")
HOUR_S = CHECKPOINT_EVERY // SECOND + 1


class World:
    def __init__(self, folder):
        self.clock = FakeClock()
        self.store = open_store(str(folder / "fleet.db"), self.clock)
        self.folder = folder / "data"
        self.checkpoints = CheckpointFile(self.folder)
        self.sealer = Sealer(self.store, self.checkpoints)

    def decide(self):
        self.store.transact("decide", decide)
        self.sealer.run(None)

    def numbers(self):
        return [one.number for one in CheckpointFile(self.folder).all()]


@pytest.fixture
def world(tmp_path):
    made = World(tmp_path)
    yield made
    made.store.close()


def test_the_first_seal_is_signed_and_then_one_an_hour(world):
    world.sealer.run(None)
    assert world.numbers() == []
    for _ in range(5):
        world.decide()
    assert world.numbers() == [1]
    world.clock.advance(HOUR_S)
    world.sealer.run(None)
    world.sealer.run(None)
    assert world.numbers() == [1, 5]


def test_an_idle_plane_signs_nothing_more(world):
    world.decide()
    for _ in range(4):
        world.clock.advance(2 * HOUR_S)
        world.sealer.run(None)
    assert world.numbers() == [1]


def test_the_signature_is_of_the_seal_and_key_and_file_are_for_their_owner_only(world):
    world.decide()
    [told] = world.checkpoints.all()
    key = world.checkpoints.key_file.read_bytes().strip()
    body = canonical_json({"at": told.at, "digest": told.digest, "number": told.number})
    assert told.signature == "hmac-sha256:" + hmac.new(key, body, hashlib.sha256).hexdigest()
    assert told.digest == world.store.read(lambda tx: tx.ledger.tip()).digest
    for file in (world.checkpoints.key_file, world.checkpoints.file):
        assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_a_plane_that_starts_again_goes_on_with_the_same_key(world):
    world.decide()
    key = world.checkpoints.key_file.read_bytes()
    world.clock.advance(HOUR_S)
    world.sealer = Sealer(world.store, CheckpointFile(world.folder))
    world.decide()
    assert world.numbers() == [1, 2]
    assert world.checkpoints.key_file.read_bytes() == key


def test_a_line_that_a_crash_cut_off_is_taken_away(world):
    world.decide()
    with world.checkpoints.file.open("ab") as opened:
        opened.write(b'{"at":18000')
    world.clock.advance(HOUR_S)
    world.sealer = Sealer(world.store, CheckpointFile(world.folder))
    world.decide()
    assert world.numbers() == [1, 2]


@pytest.mark.parametrize(("content", "mode"), [(b"x" * 64, 0o640), (b"", 0o600)])
def test_a_key_that_proves_nothing_is_refused_and_sealing_goes_on(world, content, mode):
    world.folder.mkdir()
    world.checkpoints.key_file.write_bytes(content)
    world.checkpoints.key_file.chmod(mode)
    with pytest.raises(Misconfigured, match=r"ledger\.key"):
        world.decide()
    assert world.store.read(lambda tx: tx.ledger.tip()).number == 1
    assert world.numbers() == []


def test_a_file_that_cannot_be_written_is_told_and_tried_again(world):
    world.checkpoints.file.parent.mkdir()
    world.checkpoints.file.mkdir()
    with pytest.raises(StoreUnavailable, match="ledger-checkpoints"):
        world.decide()
    world.checkpoints.file.rmdir()
    world.sealer.run(None)
    assert world.numbers() == [1]


def test_what_was_signed_of_a_replaced_ledger_can_be_set_aside(world, tmp_path):
    world.decide()
    world.checkpoints.set_aside(tmp_path / "aside.jsonl")
    assert world.numbers() == []
    assert (tmp_path / "aside.jsonl").read_bytes().count(b"\n") == 1
    world.checkpoints.set_aside(tmp_path / "aside.jsonl")
    world.decide()
    assert world.numbers() == [2]
