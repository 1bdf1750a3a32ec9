"""0003: what people ask for besides the files, and what others changed.

The changes as they were then, written out.  Revision 0003, down_revision 0002.
"""

from __future__ import annotations

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Nothing yet."""
