"""What is sent as a sample is judged before anything of it is kept, and every rejection has its own code."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import math
from pathlib import Path
from typing import Any

import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from fleetwarden.adapters.signal_sources.attestation import KeyedAuthenticator
from fleetwarden.domain.identifiers import SECOND
from fleetwarden.domain.signal_authority import Attestation, Rejection, SentSample, judge, signed_bytes
from fleetwarden.domain.signal_file import AttestationKey, SignalsDocument
from fleetwarden.domain.signals import Aggregation, SignalKind

NOW = 1_800_000_000 * SECOND


def sent(**over: Any) -> SentSample:
    fields: dict[str, Any] = {
        "source": "shop-1",
        "service": "web",
        "kind": SignalKind.QUEUE,
        "value": 12.5,
        "aggregation": Aggregation.FLEET_TOTAL,
        "unit": "jobs",
        "sampled_at": NOW,
    }
    return SentSample(**(fields | over))


def code(sample: SentSample) -> Rejection | None:
    verdict = judge(sample, NOW, {"web"})
    return None if verdict is None else verdict[0]


@pytest.mark.req("SIG-4", "SIG-5")
@pytest.mark.parametrize(
    ("over", "expected"),
    [
        ({"value": math.nan}, Rejection.NOT_FINITE),
        ({"value": math.inf}, Rejection.NOT_FINITE),
        ({"value": -0.001}, Rejection.NEGATIVE),
        ({"value": 1.1e15}, Rejection.TOO_LARGE),
        ({"sampled_at": None}, Rejection.MISSING_TIMESTAMP),
        ({"sampled_at": NOW - 120 * SECOND - 1}, Rejection.STALE),
        ({"sampled_at": NOW - 5 * SECOND - 1, "freshness_s": 5.0}, Rejection.STALE),
        ({"sampled_at": NOW + 30 * SECOND + 1}, Rejection.FUTURE),
        ({"event_at": NOW + 30 * SECOND + 1}, Rejection.FUTURE),
        ({"service": "other"}, Rejection.SCOPE),
        ({"evidence": ("https://me:hunter2@host/x",)}, Rejection.CREDENTIALS),
        ({"evidence": ("api_key=1234",)}, Rejection.CREDENTIALS),
        ({"source": "-"}, Rejection.MALFORMED),
        ({"service": ""}, Rejection.MALFORMED),
        ({"scale_unit": "no name"}, Rejection.MALFORMED),
        ({"tenant": "../x"}, Rejection.MALFORMED),
        ({"unit": ""}, Rejection.MALFORMED),
        ({"freshness_s": 0.0}, Rejection.MALFORMED),
        ({"freshness_s": 121.0}, Rejection.MALFORMED),
        ({"freshness_s": math.nan}, Rejection.MALFORMED),
        ({"confidence": 1.01}, Rejection.MALFORMED),
        ({"confidence": math.nan}, Rejection.MALFORMED),
        ({"evidence": ("x",) * 9}, Rejection.MALFORMED),
        ({"sequence": -1}, Rejection.MALFORMED),
        ({"event_at": -1}, Rejection.MALFORMED),
        ({"sequence": 2**63}, Rejection.MALFORMED),
    ],
)
def test_each_wrong_sample_has_its_own_code(over: dict[str, Any], expected: Rejection) -> None:
    assert code(sent(**over)) is expected


@pytest.mark.req("SIG-1", "SIG-4")
@pytest.mark.parametrize(
    "over",
    [
        {},
        {"value": 0.0},
        {"value": 1e15},
        {"sampled_at": NOW - 120 * SECOND},
        {"sampled_at": NOW - 5 * SECOND, "freshness_s": 5.0},
        {"sampled_at": NOW + 30 * SECOND},
        {"confidence": 0.0},
        {"evidence": ("trace/123",) * 8, "sequence": 2**63 - 1, "tenant": "shop"},
    ],
)
def test_what_is_just_within_its_limits_is_taken(over: dict[str, Any]) -> None:
    assert code(sent(**over)) is None


class Keys:
    """A folder with the secret of k1, and the public key of k2."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.secret = b"a long secret"
        self.private = Ed25519PrivateKey.generate()
        (folder / "k1.key").write_bytes(self.secret + b"\n")
        public = base64.b64encode(self.private.public_key().public_bytes_raw()).decode()
        keys = (AttestationKey(id="k1", hmac_file="k1.key"), AttestationKey(id="k2", ed25519=public))
        self.document = SignalsDocument(keys={"shop-1": keys})
        self.authenticator = KeyedAuthenticator(lambda: self.document, folder)

    def by_hmac(self, sample: SentSample, key_id: str = "k1") -> SentSample:
        signature = hmac.new(self.secret, signed_bytes(sample), hashlib.sha256).hexdigest()
        return msgspec.structs.replace(sample, attestation=Attestation(key_id=key_id, signature=signature))

    def by_ed25519(self, sample: SentSample) -> SentSample:
        signature = base64.b64encode(self.private.sign(signed_bytes(sample))).decode()
        return msgspec.structs.replace(sample, attestation=Attestation(key_id="k2", signature=signature))


@pytest.fixture
def keys(tmp_path: Path) -> Keys:
    return Keys(tmp_path)


@pytest.mark.req("SIG-6")
def test_what_is_signed_is_the_documented_form() -> None:
    """A sender in another language has the page only."""
    page = Path(__file__).parents[3].joinpath("docs/reference/signals-yml.md").read_text(encoding="utf-8")
    [example] = [line for line in page.splitlines() if line.startswith('{"aggregation"')]
    signed = signed_bytes(sent(value=12, sequence=3, attestation=Attestation(key_id="k", signature="s")))
    assert signed.decode() == example
    assert set(json.loads(example)) == set(SentSample.__struct_fields__) - {"attestation"}


@pytest.mark.req("SIG-6")
def test_either_key_of_a_source_may_sign_and_nothing_may_be_changed_on_the_way(keys: Keys) -> None:
    for signed in (keys.by_hmac(sent(sequence=1)), keys.by_ed25519(sent(sequence=1))):
        assert keys.authenticator.problem(signed) is None
        changes: list[dict[str, Any]] = [
            {"value": 12.6},
            {"service": "api"},
            {"sampled_at": NOW + 1},
            {"sequence": 2},
            {"unit": "bytes"},
            {"confidence": 0.5},
            {"evidence": ("x",)},
        ]
        for over in changes:
            problem = keys.authenticator.problem(msgspec.structs.replace(signed, **over))
            assert problem is not None
            assert "does not match" in problem


@pytest.mark.req("SIG-4", "SIG-6")
def test_an_unsigned_sample_an_unknown_key_and_anothers_key_are_refused(keys: Keys) -> None:
    for source in ("shop-1", "free"):  # a name without keys is no way around those that have some
        assert "not signed" in str(keys.authenticator.problem(sent(source=source)))
    assert "'k9'" in str(keys.authenticator.problem(keys.by_hmac(sent(), key_id="k9")))
    assert "no key" in str(keys.authenticator.problem(keys.by_hmac(sent(source="shop-2"))))
    keys.document = SignalsDocument()
    assert keys.authenticator.problem(sent()) is None


@pytest.mark.req("SIG-6")
def test_a_key_goes_out_of_use_and_comes_into_use_without_a_restart(keys: Keys) -> None:
    signed = keys.by_hmac(sent())
    (keys.folder / "k1.key").write_bytes(b"another secret")
    assert "does not match" in str(keys.authenticator.problem(signed))
    keys.secret = b"another secret"
    assert keys.authenticator.problem(keys.by_hmac(sent())) is None
    keys.document = SignalsDocument(keys={"shop-1": keys.document.keys["shop-1"][1:]})
    assert "no key 'k1'" in str(keys.authenticator.problem(keys.by_hmac(sent())))


@pytest.mark.req("SIG-6", "SEC-1")
@pytest.mark.parametrize("content", [None, b"", b" \n"])
def test_a_key_file_that_is_gone_or_empty_vouches_for_nobody_and_shows_nothing(
    keys: Keys, content: bytes | None
) -> None:
    signed = keys.by_hmac(sent())
    if content is None:
        (keys.folder / "k1.key").unlink()
    else:
        (keys.folder / "k1.key").write_bytes(content)
        keys.secret = b""
        signed = keys.by_hmac(sent())
    problem = str(keys.authenticator.problem(signed))
    assert "cannot be used" in problem
    assert str(keys.folder) not in problem
    assert signed.attestation is not None
    assert signed.attestation.signature not in problem


@pytest.mark.req("SIG-6")
@pytest.mark.parametrize("signature", ["", "é", "\udc80", "AAAA", "x" * 10_000])
@pytest.mark.parametrize("key_id", ["k1", "k2"])
def test_a_signature_that_is_none_is_refused_in_words(keys: Keys, key_id: str, signature: str) -> None:
    sample = sent(attestation=Attestation(key_id=key_id, signature=signature))
    assert keys.authenticator.problem(sample) is not None
