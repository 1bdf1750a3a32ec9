"""0006: teams of identities, quorum, scopes and ends.

The changes as they were then, written out.  Revision 0006, down_revision 0005.
"""

from __future__ import annotations

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    """Nothing yet."""
