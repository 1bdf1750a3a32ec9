"""0002: which plane and host does what, and in what order rows became visible.

The changes as they were then, written out.  Revision 0002, down_revision 0001.
"""

from __future__ import annotations

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Nothing yet."""
