"""0004: what was seen of a target before it was touched, and the versions it ran.

The changes as they were then, written out.  Revision 0004, down_revision 0003.
"""

from __future__ import annotations

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    """Nothing yet."""
