"""0005: seals over the ledger, and the texts that decisions cite.

The changes as they were then, written out.  Revision 0005, down_revision 0004.
"""

from __future__ import annotations

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    """Nothing yet."""
