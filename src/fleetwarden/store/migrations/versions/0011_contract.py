"""0011: contract: nothing yet.

The changes as they were then, written out.  Revision 0011, down_revision 0010.
"""

from __future__ import annotations

revision = "0011"
down_revision = "0010"


def upgrade() -> None:
    """Nothing yet."""
