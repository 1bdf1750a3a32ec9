"""0013: watches with what they saw, and versions that failed one.

The changes as they were then, written out.  Revision 0013, down_revision 0012.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"

METADATA = sa.MetaData()
_BIG = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def _index(name: str, *columns: str, where: str | None = None, unique: bool = False) -> sa.Index:
    condition = None if where is None else sa.text(where)
    return sa.Index(name, *columns, unique=unique, sqlite_where=condition, postgresql_where=condition)


def _integer(name: str, *, null: bool = False) -> sa.Column[int]:
    return sa.Column(name, _BIG, nullable=null)


def _text(name: str) -> sa.Column[str]:
    return sa.Column(name, sa.Text(), nullable=False)


deploy_watches = sa.Table(
    "deploy_watches",
    METADATA,
    sa.Column("seq", _BIG, sa.Identity(), primary_key=True),
    _text("service"),
    _integer("action_seq", null=True),
    _text("kind"),
    _text("source"),
    _text("version"),
    _text("from_version"),
    _integer("from_replicas", null=True),
    _text("definition"),
    _text("replica"),
    _integer("changes_version"),
    _text("on_fail"),
    _text("status"),
    _integer("started"),
    _integer("settled"),
    _integer("grace_until"),
    _integer("deadline"),
    _integer("poll"),
    _integer("made"),
    _integer("usable"),
    _integer("healthy"),
    _integer("last_at", null=True),
    _text("probes"),
    _text("judged"),
    _integer("proven"),
    _text("reason"),
    _integer("ended_at", null=True),
    _integer("replaced_by", null=True),
    _text("follow_up"),
    _index("deploy_watches_running", "service", where="status = 'running'", unique=True),
    _index("deploy_watches_of_action", "action_seq", where="action_seq IS NOT NULL", unique=True),
    _index("deploy_watches_of_service", "service", "seq"),
    _index(
        "deploy_watches_of_versions",
        "service",
        "seq",
        where="proven = 1 OR (changes_version = 1 AND status = 'failed')",
    ),
    _index("deploy_watches_of_changes", "service", "seq", where="changes_version = 1"),
    sqlite_strict=True,
)

quarantines = sa.Table(
    "quarantines",
    METADATA,
    sa.Column("seq", _BIG, sa.Identity(), primary_key=True),
    _text("service"),
    _text("version"),
    _integer("watch_seq"),
    _text("reason"),
    _integer("at"),
    _integer("cleared_at", null=True),
    _text("cleared_by"),
    _text("note"),
    _index("quarantines_standing", "service", "version", where="cleared_at IS NULL", unique=True),
    _index("quarantines_of_service", "service", "seq"),
    sqlite_strict=True,
)


def upgrade() -> None:
    """New tables; nothing that stands is touched.  A watch that was under way ends as it began: unobserved."""
    METADATA.create_all(op.get_bind(), checkfirst=False)
