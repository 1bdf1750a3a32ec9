"""0010: signals: nothing yet.

The changes as they were then, written out.  Revision 0010, down_revision 0009.
"""

from __future__ import annotations

revision = "0010"
down_revision = "0009"


def upgrade() -> None:
    """Nothing yet."""
