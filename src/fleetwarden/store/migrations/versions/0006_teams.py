"""0006: teams of identities, one vote per person, warnings before an expiry, freezes whose end was told.

The changes as they were then, written out.  Revision 0006, down_revision 0005.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"

_BIG = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
_VOTES = sa.Table(
    "votes",
    sa.MetaData(),
    sa.Column("seq", _BIG, sa.Identity(), primary_key=True),
    sa.Column("approval_seq", _BIG, nullable=False),
    sa.Column("person", sa.Text(), nullable=False),
    sa.Column("decision", sa.Text(), nullable=False),
    sa.Column("reason", sa.Text(), nullable=False),
    sa.Column("teams", sa.Text(), nullable=False),
    sa.Column("at", _BIG, nullable=False),
)

_LEDGER = sa.table("ledger", *(sa.column(one) for one in ("kind", "ref", "digest", "xact")))


def upgrade() -> None:
    """Add the columns, make the table, and take over the votes that the approvals already carry, under seal."""
    op.add_column("tokens", sa.Column("teams", sa.Text(), nullable=False, server_default="[]"))
    op.add_column("approvals", sa.Column("warned_at", _BIG, nullable=True))
    op.add_column("freezes", sa.Column("told_at", _BIG, nullable=True))
    op.create_table(
        "votes",
        sa.Column("seq", _BIG, sa.Identity(), primary_key=True),
        sa.Column("approval_seq", _BIG, sa.ForeignKey("approvals.seq"), nullable=False),
        sa.Column("person", sa.Text(), nullable=False),
        sa.Column("decision", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("teams", sa.Text(), nullable=False),
        sa.Column("at", _BIG, nullable=False),
        sqlite_strict=True,
    )
    op.create_index("votes_of_person", "votes", ["approval_seq", "person"], unique=True)
    _take_over()


def _take_over() -> None:
    connection = op.get_bind()
    rows = connection.execute(sa.text("SELECT seq, votes FROM approvals WHERE votes <> '[]' ORDER BY seq"))
    for seq, votes in rows.fetchall():
        told = [{**vote, "reason": vote.get("reason", ""), "teams": []} for vote in json.loads(votes)]
        written = sa.text("UPDATE approvals SET votes = :votes WHERE seq = :seq")
        connection.execute(written, {"votes": _canonical(told), "seq": seq})
        for vote in told:
            row = {
                "approval_seq": seq,
                "person": vote["by"],
                "decision": vote["decision"],
                "reason": vote["reason"],
                "teams": "[]",
                "at": vote["at"],
            }
            [number] = connection.execute(sa.insert(_VOTES).values(row).returning(_VOTES.c.seq)).scalars()
            connection.execute(sa.insert(_LEDGER), _entry({"seq": number, **row}))


def _entry(row: Mapping[str, object]) -> dict[str, object]:
    """What enters the vote into the sealed ledger, as revision 0005 enters what came before it."""
    body = _canonical({"row": row, "table": "votes"}).encode()
    return {"kind": "votes", "ref": row["seq"], "digest": "sha256:" + hashlib.sha256(body).hexdigest(), "xact": 0}


def _canonical(value: object) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
