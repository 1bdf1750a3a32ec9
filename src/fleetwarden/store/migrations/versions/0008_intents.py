"""0008: intents: nothing yet.

The changes as they were then, written out.  Revision 0008, down_revision 0007.
"""

from __future__ import annotations

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    """Nothing yet."""
