"""The durable authority, on SQLite or PostgreSQL.

The only layer that knows SQL and database drivers.  It keeps the ledger, the outbox, approvals, work items, leases and
what people changed at run time, and it implements `ports.stores` and nothing else: it never decides policy, never
calls the world, and never hands out a cursor, a row or a driver's exception.  `opening.open_store` is the way in.
"""

__all__: list[str] = []
