"""Gates of rollouts that another controller runs: its webhook, read into a request, and the answer go or halt.

`name`, `namespace` and `checksum` name one revision of one canary, and a yes is for that revision alone.  What else the
webhook says is evidence; a token in it opens the gate's door and is kept nowhere.
"""

from __future__ import annotations

from collections.abc import Mapping

from fleetwarden.app.identity import Caller, Role, require_somewhere
from fleetwarden.app.outside import request_of
from fleetwarden.app.parts import Parts
from fleetwarden.controllers.outside import OutsideDesk
from fleetwarden.controllers.rollout_gate import RolloutGate
from fleetwarden.domain.errors import Misconfigured
from fleetwarden.domain.identifiers import SECOND, JsonValue
from fleetwarden.domain.scrubbing import MASK, names_secret, scrubbed

__all__ = ["KIND", "Hook", "RolloutGates", "token_of"]

KIND = "canary_rollout"
TOKEN, KIND_KEY, TARGET_KEY = "token", "kind", "target"
METADATA_MAX = 32
VALUE_MAX = 512


class Hook:
    """What a gate's webhook says.  `metadata` may name `kind`, `target` and, where headers cannot be set, `token`."""

    def __init__(
        self, *, name: str, namespace: str = "", phase: str = "", checksum: str = "", metadata: Mapping[str, str] = {}
    ) -> None:
        self.name, self.namespace, self.phase, self.checksum = name, namespace, phase, checksum
        self.metadata = dict(metadata)


def token_of(metadata: Mapping[str, str]) -> str:
    """The token that a webhook carries in its metadata, "" for none."""
    return metadata.get(TOKEN, "").strip()


class RolloutGates:
    """The gates of one plane."""

    def __init__(self, parts: Parts, desk: OutsideDesk) -> None:
        self._parts = parts
        settings = parts.settings
        self._gate = RolloutGate(
            parts.store,
            parts.configuration,
            parts.gate,
            desk,
            pass_us=int(settings.fleet_gate_pass_s * SECOND),
            rejected_us=int(settings.fleet_rejected_hold_s * SECOND),
        )

    def ask(self, caller: Caller, hook: Hook) -> dict[str, JsonValue]:
        """`{go, reason, kind, target, decision, decision_id, approval_id}`.

        Raises Forbidden, Misconfigured (a kind or target that cannot be), StoreUnavailable: all of them are no go.
        """
        require_somewhere(caller, Role.OPERATOR)
        if len(hook.metadata) > METADATA_MAX:
            raise Misconfigured(f"{len(hook.metadata)} fields of metadata", hint=f"at most {METADATA_MAX}")
        kind, target = hook.metadata.get(KIND_KEY) or KIND, hook.metadata.get(TARGET_KEY) or hook.name
        request = request_of(
            self._parts,
            caller,
            kind=kind,
            target=target,
            params={"canary": hook.name, "namespace": hook.namespace, "checksum": hook.checksum},
            reason=f"gate of canary {hook.namespace}/{hook.name}, revision {hook.checksum or 'unknown'}"[:500],
            key=f"gate.{self._parts.ids.new()}",
            facts=_facts(hook),
        )
        answer = self._gate.ask(request)
        return {
            "go": answer.go,
            "reason": answer.reason,
            "kind": kind,
            "target": target,
            "decision": None if answer.decision is None else answer.decision.verdict.value,
            "decision_id": None if answer.decision is None else answer.decision.id,
            "approval_id": None if answer.approval is None else answer.approval.id,
        }


def _facts(hook: Hook) -> dict[str, JsonValue]:
    told = {
        scrubbed(name)[:64]: MASK if names_secret(name) else scrubbed(value)[:VALUE_MAX]
        for name, value in hook.metadata.items()
        if name not in (TOKEN, KIND_KEY, TARGET_KEY)
    }
    return {"phase": scrubbed(hook.phase)[:64], "metadata": told}
