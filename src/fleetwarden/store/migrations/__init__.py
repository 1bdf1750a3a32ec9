"""Alembic's scripts: how an older database becomes today's.  Run by `store.revisions`, never by hand."""

__all__: list[str] = []
