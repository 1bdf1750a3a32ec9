"""What answers events: playbooks of your own, and telling people of a failure that comes back.

Thin names over the layers.  A playbook is a list of `PlaybookStep`s, or a pure function that returns the next one.
"""

from fleetwarden.app.failures import escalate_repeated_failure
from fleetwarden.app.playbooks import PlaybookPlugin, register_playbook
from fleetwarden.domain.playbooks import End, Playbook, PlaybookStep, StepKind, When

__all__ = [
    "End",
    "Playbook",
    "PlaybookPlugin",
    "PlaybookStep",
    "StepKind",
    "When",
    "escalate_repeated_failure",
    "register_playbook",
]
