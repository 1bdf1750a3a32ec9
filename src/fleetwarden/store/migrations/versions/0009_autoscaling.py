"""0009: autoscaling: nothing yet.

The changes as they were then, written out.  Revision 0009, down_revision 0008.
"""

from __future__ import annotations

revision = "0009"
down_revision = "0008"


def upgrade() -> None:
    """Nothing yet."""
