"""The action outbox: the durable fence before every side effect.  Thin names over the port and its records.

`ActionOutboxStore` is the part of a store that keeps it; a store that cannot do this in one transaction is refused.
"""

from fleetwarden.domain.actions import OutboxRecord, Outcome
from fleetwarden.domain.lifecycles import OutboxState
from fleetwarden.ports.stores import Outbox as ActionOutboxStore

__all__ = ["ActionOutboxStore", "OutboxRecord", "OutboxState", "Outcome"]
