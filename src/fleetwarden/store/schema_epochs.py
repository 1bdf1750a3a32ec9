"""Tables of epochs: what a restore or a copy began, and below which numbers nothing is given out any more.

A store that was restored knows nothing of what was done after its backup.  An epoch says since when that is so, which
freeze holds until somebody answers for it, and which numbers may have been used by the part that is lost.
"""

from __future__ import annotations

import sqlalchemy as sa

from fleetwarden.store.schema_parts import integer, seq, table, text

__all__ = ["epochs", "number_floors"]

epochs = table(
    "epochs",
    seq(),
    text("kind"),  # restored | copied
    integer("at"),
    text("origin"),  # of what: JSON
    integer("freeze_seq", null=True),  # the freeze that holds until it is released
    integer("released_at", null=True),
    text("released_by"),
    text("reason"),
)

number_floors = table(
    "number_floors",
    sa.Column("name", sa.Text(), primary_key=True),  # of a table
    integer("floor"),  # the highest number that may have been given out
)
