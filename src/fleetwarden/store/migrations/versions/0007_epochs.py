"""0007: epochs: what a restore or a copy begins.

The changes as they were then, written out.  Revision 0007, down_revision 0006.
"""

from __future__ import annotations

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    """Nothing yet."""
